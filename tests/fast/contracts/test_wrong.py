"""The contract is tested by stores that are wrong on purpose: each is found by the test about its mistake."""

from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.testing.contract import contract_tests, failures
from onefold.testing.contract.stage import Open
from onefold.testing.wrong import WRONG, Clockless, Right

# Which tests find which mistake. Every mistake and every test of the contract stands here at least once.
FOUND_BY = {
    "LastWriteWins": ["of_handles_that_insert_at_once_one_wins", "a_stale_version_is_refused"],
    "IgnoresVersions": ["a_stale_version_is_refused"],
    "AcceptsTheFuture": ["a_version_from_the_future_is_refused"],
    "InsertOverwrites": [
        "a_second_insert_is_refused_and_shows_what_is_stored",
        "batches_sent_at_once_each_have_their_winners",
    ],
    "UpdateInserts": [
        "an_expected_version_on_an_absent_key_writes_nothing",
        "a_late_writer_cannot_bring_back_what_was_removed",
    ],
    "ReadThenWrite": ["of_callers_that_swap_at_once_one_wins", "of_handles_that_swap_at_once_one_wins"],
    "AwaitsThenWrites": [
        "of_callers_that_swap_at_once_one_wins",
        "of_callers_that_insert_at_once_one_wins",
    ],
    "AlwaysSaysYes": ["a_second_insert_is_refused_and_shows_what_is_stored"],
    "SaysWhatStoodBefore": ["a_first_write_is_stored"],
    "RepliesInAnotherOrder": ["replies_come_in_the_order_asked"],
    "ReadsInTheStoresOrder": ["replies_come_in_the_order_asked"],
    "ReadsFromMemory": ["another_handle_sees_at_once_what_was_written"],
    "StopsAtTheFirstLoser": ["in_one_batch_some_win_and_some_lose"],
    "AllOrNothing": ["in_one_batch_some_win_and_some_lose", "a_batch_may_insert_update_and_remove"],
    "RaisesForTheAbsent": ["an_absent_key_is_nothing", "to_remove_what_is_absent_is_no_error"],
    "ClosesOnce": ["a_store_may_be_closed_before_it_was_used", "a_store_may_be_closed_twice"],
    "ForgetsWhenClosed": [
        "what_was_written_is_there_after_a_close",
        "a_closed_store_opens_again_when_it_is_used",
    ],
    "LosesTheBody": ["the_largest_body_fits"],
    "SettlesWithoutReceipt": ["a_settle_writes_its_receipt_and_leaves_the_rest_as_it_is"],
    "SettlesOverOthers": ["a_settle_on_another_version_writes_nothing"],
    "SettlesFromNothing": ["a_settle_writes_its_receipt_and_leaves_the_rest_as_it_is"],
    "ForgetsTheClass": [
        "every_state_reason_and_effect_is_kept",
        "every_field_comes_back_as_it_was_written",
    ],
    "CutsTheBody": ["the_largest_body_fits"],
    "EmptyIsNothing": ["no_text_is_not_an_empty_text"],
    "ThreeBytesPerLetter": ["texts_come_back_letter_by_letter"],
    "VersionRestartsAtOne": [
        "the_version_of_a_new_entry_is_the_clock_in_microseconds",
        "what_is_written_after_a_removal_has_a_higher_version",
    ],
    "KeepsTheCallersVersion": ["the_version_that_a_caller_writes_into_an_entry_is_ignored"],
    "ClockAsEveryVersion": ["a_later_version_is_the_expected_one_plus_one"],
    "NoFence": ["a_fence_of_nothing_becomes_the_version_of_the_write"],
    "FenceFollowsEveryWrite": ["a_given_fence_is_kept"],
    "CallerClock": ["times_that_a_caller_writes_are_ignored", "idle_is_the_stores_word_not_the_callers"],
    "RoundsTimes": [
        "an_entry_carries_the_time_of_its_last_write",
        "begin_sets_when_the_effect_began",
        "idle_starts_at_nothing",
        "keep_sets_the_time_of_forgetting",
        "a_delay_sets_the_time_of_the_next_attempt",
    ],
    "KeepsOldTimes": ["a_later_write_clears_both_times"],
    "ForgetsTheBeginning": ["later_writes_keep_when_the_effect_began"],
    "InsistsOnNewerTimes": ["a_clock_that_jumped_back_does_not_stop_writes"],
    "IdleNeverGrows": ["idle_grows_while_a_version_stands", "a_scan_shows_what_a_look_shows"],
    "IdleAddsAMinute": [
        "idle_starts_at_nothing",
        "a_held_entry_is_due_when_its_lease_is_over",
        "a_free_entry_is_due_when_its_delay_is_over",
    ],
    "IdleFromTheCaller": ["idle_is_the_stores_word_not_the_callers"],
    "IdleBelowNothing": ["idle_is_never_negative_when_the_clock_jumps_back"],
    "LosersProlong": ["a_refused_change_writes_nothing_at_all"],
    "DoubtsItsOwnClock": ["every_reply_says_how_far_apart_clocks_may_be"],
    "KeepsQuietToLosers": ["every_reply_says_how_far_apart_clocks_may_be"],
    "CountsTheSkewTwice": ["idle_grows_while_a_version_stands"],
    "HidesExpired": ["an_expired_entry_is_never_hidden"],
    "RemovesHeld": ["open_entries_are_never_removed"],
    "RemovesUnexpired": [
        "what_has_not_expired_is_not_removed",
        "what_is_kept_for_ever_is_never_removed",
    ],
    "RemovesAnyVersion": ["nothing_is_removed_on_another_version"],
    "NeverRemoves": ["what_is_done_and_expired_is_removed"],
    "ForgetsScope": ["a_scan_lists_one_scope_and_no_other"],
    "FoldsScopes": ["scopes_that_look_alike_are_kept_apart"],
    "ScanSkipsTies": ["pages_of_any_size_show_everything_once", "done_entries_are_walked_page_by_page"],
    "ScanRepeatsTies": ["pages_of_any_size_show_everything_once"],
    "PagesByOffset": [
        "what_leaves_between_two_pages_does_not_hide_its_neighbours",
        "a_purge_removes_all_that_expired_and_nothing_else",
    ],
    "OnePageOnly": ["pages_of_entries_written_at_different_times_show_everything_once"],
    "NeverLastPage": ["a_scan_of_nothing_ends_at_once"],
    "IgnoresTheLimit": ["pages_of_any_size_show_everything_once"],
    "ScanHidesNotDue": ["what_is_not_due_is_listed_where_nobody_asks_for_due"],
    "ScanShowsNotDue": [
        "renewing_a_claim_makes_it_due_later",
        "a_held_entry_is_due_when_its_lease_is_over",
        "a_free_entry_is_due_when_its_delay_is_over",
        "a_parked_entry_is_always_due_and_a_done_one_never",
    ],
    "ScanForgetsDone": [
        "a_scan_without_a_scope_lists_all_scopes",
        "a_scan_lists_the_states_asked_for_and_no_others",
    ],
    "ScanRemembers": ["an_entry_that_leaves_a_state_leaves_its_scan"],
    "ScanShowsTheRefused": ["a_refused_change_is_in_no_scan"],
    "FoldsCase": ["a_thousand_hostile_keys_are_a_thousand_entries"],
    "TrimsSpaces": ["a_thousand_hostile_keys_are_a_thousand_entries"],
    "KnowsLabelsOnly": ["a_thousand_hostile_keys_are_a_thousand_entries"],
    "KnowsPartsOnly": ["the_same_parts_in_two_scopes_are_two_keys", "what_a_scan_found_can_be_written"],
}


def handles(store: Callable[[FakeClock], Store | AsyncStore]) -> tuple[Open, Open]:
    """Open a store that lives in memory, and give the same one again to whoever opens another handle."""
    opened: dict[Path, Store | AsyncStore] = {}

    def open(folder: Path, clock: FakeClock) -> Store | AsyncStore:
        opened[folder] = store(clock)
        return opened[folder]

    return open, lambda folder, clock: opened[folder]


def skew(store: object) -> float:
    """Say how far apart clocks may be for a store; most have a clock of their own."""
    return float(getattr(store, "max_skew", 0.0))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_store_is_found(wrong: type):
    expected = [f"test_{promise}" for promise in FOUND_BY[wrong.__name__]]

    assert sorted(failures(*handles(wrong), only=expected, max_skew=skew(wrong))) == sorted(expected)


@pytest.mark.parametrize("right", [MemoryStore, Right, lambda clock: Inline(Right(clock)), Clockless])
def test_a_right_store_fails_nothing(right: Callable[[FakeClock], Store | AsyncStore]):
    assert failures(*handles(right), max_skew=skew(right)) == []


def test_a_store_must_say_in_its_contract_that_it_has_no_clock():
    assert "test_every_reply_says_how_far_apart_clocks_may_be" in failures(*handles(Clockless))


def test_every_mistake_has_a_row():
    assert sorted(FOUND_BY) == sorted(wrong.__name__ for wrong in WRONG)


def test_every_promise_is_broken_by_some_wrong_store():
    assert {f"test_{promise}" for found in FOUND_BY.values() for promise in found} == set(contract_tests())


def test_every_mistake_is_described():
    assert [wrong for wrong in WRONG if not wrong.__doc__] == []
