"""The decisions, as tables: what was seen, who asks on which terms, what follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core import claims
from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import NOTHING, Change, Entry, Seen
from onefold.core.key import Key
from onefold.core.terms import Terms

KEY = Key("charges", "A-17")
TERMS = Terms(lease=60, keep="8d", attempts=3, backoff=(1, 100))
HELD = Entry(
    "held", None, "ann", 40, 40, "one-shot", None, 60.0, 1000.0, 1, None, None, None, "A-17", "feed", '"r"'
)
DAY = 86400.0


def bid(effect: str = "idempotent", **more: Any) -> Bid:
    return Bid(KEY, "bob", TERMS, effect, **more)  # type: ignore[arg-type]


def seen(entry: Entry, idle: float) -> Seen:
    return Seen(entry, idle)


def written(change: Change | Answer) -> tuple[Any, ...]:
    """Cut a change down to what the tables speak of."""
    assert isinstance(change, Change)
    assert change.entry is not None
    return change.entry.state, change.entry.why, change.entry.token, change.entry.attempt, change.expected


# ----- claiming


@pytest.mark.parametrize(
    ("stored", "effect", "expected"),
    [
        (NOTHING, "one-shot", ("held", None, "bob", 1, None)),
        (NOTHING, "joined", ("done", None, "bob", 1, None)),
        (seen(HELD, 60), "idempotent", ("held", None, "bob", 2, 40)),
        (seen(HELD, 60), "one-shot", ("held", None, "bob", 2, 40)),
        (seen(replace(HELD, begun=1000.0), 60), "one-shot", ("parked", "in-doubt", "ann", 1, 40)),
        (seen(replace(HELD, begun=1000.0), 60), "idempotent", ("parked", "in-doubt", "ann", 1, 40)),
        (seen(replace(HELD, attempt=3), 60), "idempotent", ("parked", "failed", "ann", 3, 40)),
        (seen(replace(HELD, state="free", not_before=1010.0), 10), "one-shot", ("held", None, "bob", 2, 40)),
        (seen(replace(HELD, state="free", not_before=None), 0), "one-shot", ("held", None, "bob", 2, 40)),
        (seen(replace(HELD, state="done", expires=1005.0), 5), "one-shot", ("held", None, "bob", 1, 40)),
    ],
)
def test_a_claimant_may_write_what_is_free_dead_or_forgotten(stored, effect, expected):
    assert written(claims.claim(bid(effect), stored)) == expected


@pytest.mark.parametrize(
    ("entry", "idle", "state", "wait"),
    [
        (HELD, 59.5, "busy", 0.5),
        (replace(HELD, state="free", not_before=1010.0), 4.0, "busy", 6.0),
        (replace(HELD, state="done"), 1e9, "done", 0.0),
        (replace(HELD, state="done", expires=1005.0), 4.9, "done", 0.0),
        (replace(HELD, state="parked", why="failed"), 1e9, "parked", 0.0),
        (replace(HELD, token="bob"), 1e9, "won", 0.0),
        (replace(HELD, token="bob", state="done"), 0.0, "done", 0.0),
        (replace(HELD, token="bob", state="parked", why="in-doubt"), 0.0, "parked", 0.0),
    ],
)
def test_a_claimant_is_told_what_it_may_not_write(entry, idle, state, wait):
    answer = claims.claim(bid(), seen(entry, idle))

    assert isinstance(answer, Answer)
    assert answer.state == state
    assert answer.wait == pytest.approx(wait)


def test_a_joined_claim_is_won_when_its_own_token_is_done():
    answer = claims.claim(bid("joined"), seen(replace(HELD, token="bob", state="done"), 0))

    assert isinstance(answer, Answer)
    assert answer.state == "won"


def test_other_content_under_the_same_key_is_a_mismatch_whatever_the_state():
    for state in ("free", "held", "done", "parked"):
        answer = claims.claim(
            bid(fingerprint="new"),
            seen(replace(HELD, state=state, fingerprint="old"), 1e9),
        )

        assert isinstance(answer, Answer)
        assert answer.state == "mismatch"


def test_content_that_one_side_did_not_give_is_not_compared():
    change = claims.claim(bid(fingerprint=None), seen(replace(HELD, fingerprint="old"), 60))

    assert isinstance(change, Change)
    assert change.entry is not None
    assert change.entry.fingerprint == "old"


@pytest.mark.parametrize(
    ("effect", "age", "state"),
    [
        ("one-shot", 8 * DAY, "parked"),
        ("keyed", 9 * DAY, "parked"),
        ("joined", 9 * DAY, "parked"),
        ("one-shot", 8 * DAY - 5, "parked"),
        ("one-shot", 8 * DAY - 7, "held"),
        ("idempotent", 9 * DAY, "held"),
    ],
)
def test_an_absent_entry_proves_nothing_about_a_record_older_than_keep(effect, age, state):
    change = claims.claim(bid(effect, age=age), NOTHING)

    assert written(change)[:2] == (state, "beyond-memory" if state == "parked" else None)


@pytest.mark.parametrize(("age", "answer"), [(0.0, None), (50.0, None), (55.0, "done"), (9 * DAY, "done")])
def test_an_expired_entry_still_proves_to_an_older_record_that_it_was_done(age, answer):
    verdict = claims.claim(bid("one-shot", age=age), seen(replace(HELD, state="done", expires=1005.0), 60))

    assert (verdict.state if isinstance(verdict, Answer) else None) == answer


@pytest.mark.parametrize(("age", "answer"), [(0.0, None), (50.0, None), (55.0, "mismatch")])
def test_content_is_compared_with_an_expired_entry_only_where_it_still_proves_something(age, answer):
    old = replace(HELD, state="done", expires=1005.0, fingerprint="old")

    verdict = claims.claim(bid("one-shot", age=age, fingerprint="new"), seen(old, 60))

    assert (verdict.state if isinstance(verdict, Answer) else None) == answer
    if isinstance(verdict, Change):
        assert verdict.entry is not None
        assert (verdict.expected, verdict.entry.fingerprint) == (old.version, "new")


def test_a_ledger_that_remembers_for_ever_has_no_beyond():
    forever = Bid(KEY, "bob", Terms(), "one-shot", age=1e9)

    assert written(claims.claim(forever, NOTHING))[0] == "held"


@pytest.mark.parametrize(
    ("holder", "contender", "parked"),
    [
        ("idempotent", "idempotent", False),
        ("keyed", "keyed", False),
        ("keyed", "idempotent", False),
        ("one-shot", "idempotent", True),
        ("idempotent", "one-shot", True),
        ("keyed", "one-shot", True),
        ("one-shot", "keyed", True),
    ],
)
def test_the_stricter_of_holder_and_contender_decides_about_a_begun_effect(holder, contender, parked):
    change = claims.claim(bid(contender), seen(replace(HELD, effect=holder, begun=1000.0), 60))

    assert (written(change)[0] == "parked") is parked


@pytest.mark.parametrize(
    ("state", "idle", "parked"),
    [("held", 80, False), ("held", 95, True), ("free", 80, False), ("free", 95, True)],
)
def test_a_keyed_effect_past_its_window_is_treated_as_one_shot(state, idle, parked):
    entry = replace(HELD, state=state, effect="keyed", begun=1000.0)

    change = claims.claim(bid("keyed", window=100.0), seen(entry, idle))

    assert (written(change)[0] == "parked") is parked


def test_a_keyed_effect_remembers_when_it_first_began():
    entry = replace(HELD, effect="keyed", begun=1000.0)

    change = claims.claim(bid("keyed"), seen(entry, 60))

    assert isinstance(change, Change)
    assert change.entry is not None
    assert (change.entry.begun, change.begin) == (1000.0, False)


@pytest.mark.parametrize(
    ("stored", "takes_suspects", "expected"),
    [
        (replace(HELD, attempt=1), False, ("held", None, "bob", 2, 40)),
        (replace(HELD, attempt=2), True, ("held", None, "bob", 3, 40)),
        (replace(HELD, attempt=2), False, "busy"),
        (replace(HELD, attempt=2, state="free"), False, ("held", None, "bob", 3, 40)),
        (replace(HELD, attempt=3), False, ("parked", "failed", "ann", 3, 40)),
    ],
)
def test_what_died_with_half_of_its_attempts_is_taken_over_only_alone(stored, takes_suspects, expected):
    answer = claims.claim(bid(takes_suspects=takes_suspects), seen(stored, 60))

    assert (answer.state if isinstance(answer, Answer) else written(answer)) == expected


def test_attempts_count_at_begun_for_one_shots_and_at_the_claim_for_the_others():
    assert written(claims.first(bid("one-shot", begin=False)))[3] == 0
    assert written(claims.first(bid("one-shot", begin=True)))[3] == 1
    assert written(claims.first(bid("keyed", begin=False)))[3] == 1


def test_a_claim_leaves_fence_version_and_times_to_the_store():
    change = claims.claim(bid(), seen(HELD, 60))

    assert isinstance(change, Change)
    assert change.entry is not None
    assert (change.entry.version, change.entry.fence, change.entry.written) == (0, 0, 0.0)


def test_a_claim_keeps_the_record_that_is_there_unless_it_brings_its_own():
    change = claims.claim(bid(), seen(HELD, 60))
    other = claims.claim(bid(body='"new"', source="poll"), seen(HELD, 60))

    assert isinstance(change, Change)
    assert isinstance(other, Change)
    assert change.entry is not None
    assert other.entry is not None
    assert (change.entry.body, change.entry.source) == ('"r"', "feed")
    assert (other.entry.body, other.entry.source) == ('"new"', "poll")


# ----- holding


MINE = Hold(KEY, "ann", HELD)


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        (None, "lost"),
        (replace(HELD, token="bob"), "lost"),
        (replace(HELD, state="done"), "lost"),
        (replace(HELD, state="free"), "lost"),
        (replace(HELD, state="parked", why="in-doubt"), "parked"),
    ],
)
def test_only_a_held_entry_of_ones_own_is_renewed_or_begun(entry, answer):
    for verdict in (claims.renew(MINE, entry), claims.begin(MINE, entry, None)):
        assert isinstance(verdict, Answer)
        assert verdict.state == answer


def test_renewing_changes_nothing_but_the_version_and_the_time():
    assert claims.renew(MINE, replace(HELD, version=44)) == Change(KEY, 44, replace(HELD, version=44))


@pytest.mark.parametrize(
    ("entry", "body", "expected"),
    [
        (replace(HELD, attempt=0), '"q"', (1, '"q"', True)),
        (replace(HELD, attempt=0), None, (1, '"r"', True)),
        (replace(HELD, begun=1000.0), None, (1, '"r"', False)),
        (replace(HELD, effect="keyed", attempt=1), '"q"', (1, '"q"', True)),
    ],
)
def test_begun_is_written_once_with_the_prepared_request(entry, body, expected):
    change = claims.begin(MINE, entry, body)

    assert isinstance(change, Change)
    assert change.entry is not None
    assert (change.entry.attempt, change.entry.body, change.begin) == expected


# ----- ending


BEGUN = replace(HELD, begun=1000.0)


@pytest.mark.parametrize(
    ("effect", "ending", "expected"),
    [
        ("one-shot", "returned", ("done", None, None)),
        ("keyed", "returned", ("done", None, None)),
        ("idempotent", "returned", ("done", None, None)),
        ("one-shot", "refused", ("free", None, 1.0)),
        ("keyed", "refused", ("free", None, 1.0)),
        ("idempotent", "refused", ("free", None, 1.0)),
        ("one-shot", "raised", ("parked", "in-doubt", None)),
        ("keyed", "raised", ("free", None, 1.0)),
        ("idempotent", "raised", ("free", None, 1.0)),
        ("one-shot", "parked", ("parked", "by-hand", None)),
        ("one-shot", "rejected", ("parked", "failed", None)),
        ("keyed", "rejected", ("parked", "failed", None)),
        ("idempotent", "rejected", ("parked", "failed", None)),
    ],
)
def test_what_the_end_of_an_effect_means(effect, ending, expected):
    change = claims.end(MINE, replace(BEGUN, effect=effect), Ending(ending), TERMS)

    assert isinstance(change, Change)
    assert change.entry is not None
    assert (change.entry.state, change.entry.why, change.delay) == expected


@pytest.mark.parametrize("effect", ["keyed", "idempotent"])
@pytest.mark.parametrize("ending", ["refused", "raised"])
def test_attempts_used_up_park_as_failed(effect, ending):
    change = claims.end(MINE, replace(BEGUN, effect=effect, attempt=3), Ending(ending), TERMS)

    assert written(change)[:2] == ("parked", "failed")


def test_a_one_shot_that_was_always_refused_is_parked_as_failed():
    change = claims.end(MINE, replace(BEGUN, attempt=3), Ending("refused"), TERMS)

    assert written(change)[:2] == ("parked", "failed")


def test_a_one_shot_that_raised_before_it_began_did_not_happen():
    change = claims.end(MINE, HELD, Ending("raised"), TERMS)

    assert written(change)[:2] == ("free", None)


def test_done_carries_the_receipt_and_how_long_it_is_remembered():
    change = claims.end(MINE, BEGUN, Ending("returned", '"ok"'), TERMS)

    assert isinstance(change, Change)
    assert change.entry is not None
    assert (change.entry.body, change.entry.fence, change.keep) == ('"ok"', 40, 8 * DAY)


def test_a_key_that_is_given_back_does_not_count_as_an_attempt():
    change = claims.end(MINE, BEGUN, Ending("refused", at_once=True), TERMS)

    assert written(change)[0::3] == ("free", 0)
    assert isinstance(change, Change)
    assert change.delay is None


def test_a_failed_attempt_may_leave_another_body_behind():
    change = claims.end(MINE, HELD, Ending("raised", '"request"'), TERMS)

    assert isinstance(change, Change)
    assert change.entry is not None
    assert change.entry.body == '"request"'


def test_a_freed_one_shot_has_not_begun_and_a_freed_keyed_effect_has():
    for effect, begun in (("one-shot", None), ("keyed", 1000.0), ("idempotent", None)):
        change = claims.end(MINE, replace(BEGUN, effect=effect), Ending("refused"), TERMS)

        assert isinstance(change, Change)
        assert change.entry is not None
        assert change.entry.begun == begun


@pytest.mark.parametrize(
    "entry",
    [
        None,
        replace(HELD, token="bob"),
        replace(HELD, state="free"),
        replace(HELD, state="done"),
        replace(HELD, token="bob", state="parked", why="in-doubt"),
    ],
)
@pytest.mark.parametrize("ending", ["returned", "refused", "rejected", "raised", "parked"])
def test_whoever_does_not_hold_it_any_more_cannot_end_it(entry, ending):
    answer = claims.end(MINE, entry, Ending(ending), TERMS)

    assert isinstance(answer, Answer)
    assert answer.state == "lost"


def test_the_holder_of_a_parked_one_shot_may_still_settle_it_or_free_it():
    parked = replace(BEGUN, state="parked", why="in-doubt", version=41)

    settled = claims.end(MINE, parked, Ending("returned", '"ok"'), TERMS)
    freed = claims.end(MINE, parked, Ending("refused"), TERMS)

    assert written(settled)[::4] == ("done", 41)
    assert written(freed)[::4] == ("free", 41)


def test_a_joined_entry_may_be_given_its_receipt_after_the_effect():
    change = claims.end(MINE, replace(HELD, state="done", effect="joined"), Ending("returned", "1"), TERMS)

    assert written(change)[0] == "done"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, ("free", None, "bob", 1, None)),
        (replace(HELD, state="free", attempt=1), ("free", None, "bob", 2, 40)),
        (replace(HELD, state="free", attempt=2), ("parked", "failed", "bob", 3, 40)),
    ],
)
def test_a_rolled_back_joined_attempt_is_counted(entry, expected):
    change = claims.failed_join(bid("joined"), Seen(entry), Ending("raised"))

    assert change is not None
    assert written(change) == expected


@pytest.mark.parametrize(
    ("how", "expected", "delay"),
    [
        (Ending("rejected"), ("parked", "failed", "bob", 1, None), None),
        (Ending("refused"), ("free", None, "bob", 1, None), 1.0),
        (Ending("refused", at_once=True, delay=90.0), ("free", None, "bob", 0, None), 90.0),
    ],
)
def test_a_rolled_back_joined_attempt_ends_as_its_exception_says(how, expected, delay):
    change = claims.failed_join(bid("joined"), NOTHING, how)

    assert change is not None
    assert (written(change), change.delay) == (expected, delay)


def test_a_rolled_back_attempt_on_what_is_not_free_counts_nowhere():
    assert claims.failed_join(bid("joined"), Seen(HELD), Ending("raised")) is None


# ----- probes and people


PARKED = replace(BEGUN, state="parked", why="in-doubt")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Happened("x"), ("done", None, "new", 1, 40)),
        (CannotHappen(), ("free", None, "new", 1, 40)),
    ],
)
def test_a_probe_settles_or_frees_what_is_parked(answer, expected):
    change = claims.probed(KEY, PARKED, "new", answer, '"x"')

    assert change is not None
    assert written(change) == expected


@pytest.mark.parametrize(("entry", "answer"), [(PARKED, None), (HELD, Happened()), (HELD, CannotHappen())])
def test_a_probe_that_does_not_know_and_a_key_that_is_not_parked_change_nothing(entry, answer):
    assert claims.probed(KEY, entry, "new", answer, None) is None


@pytest.mark.parametrize(
    ("happened", "expected"), [(True, ("done", None, "op", 1, 40)), (False, ("free", None, "op", 0, 40))]
)
def test_a_person_decides_about_what_is_parked_and_takes_the_token_away(happened, expected):
    change = claims.resolve(KEY, PARKED, "op", happened, '"x"' if happened else None)

    assert change is not None
    assert written(change) == expected
    assert change.entry is not None
    assert (change.entry.begun is None) is not happened


@pytest.mark.parametrize("entry", [None, HELD, replace(HELD, state="done"), replace(HELD, state="free")])
def test_only_what_is_parked_can_be_resolved(entry):
    assert claims.resolve(KEY, entry, "op", True, None) is None


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        (None, False),
        (HELD, False),
        (replace(HELD, state="done"), False),
        (replace(HELD, state="free"), True),
        (PARKED, False),
        (replace(PARKED, why="beyond-memory"), False),
        (replace(PARKED, why="failed"), True),
        (replace(PARKED, why="by-hand"), False),
        (replace(PARKED, why="by-hand", begun=None), True),
        (replace(PARKED, why="by-hand", effect="keyed"), True),
    ],
)
def test_a_retry_by_hand_is_allowed_only_where_it_cannot_double(entry, allowed):
    change = claims.retry(KEY, entry, "op")

    assert (change is not None) is allowed
    if change is not None:
        assert written(change) == ("free", None, "op", 0, 40)


def test_a_purge_asks_for_the_removal_of_one_version():
    assert claims.purge(KEY, HELD) == Change(KEY, 40, None)
