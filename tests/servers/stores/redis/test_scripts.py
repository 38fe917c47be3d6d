"""Wrong scripts are found: each line that keeps a promise, taken out or bent, breaks that promise."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

import pytest

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.lua import Script, script, scripts
from onefold.stores.redis.client import Client
from onefold.stores.redis.plan import RedisPlan
from onefold.stores.shells import Blocking
from onefold.testing.contract import FakeClock, contract_tests, failures
from tests.servers.stores.redis.hands import by_hand, timed

pytestmark = pytest.mark.store("redis")

PLACES = count()


class Wrong(NamedTuple):
    script: str
    right: str
    wrong: str
    breaks: str


COMPARE = "(version or nil) ~= text(expected)"

WRONG = {
    "does not compare versions": Wrong(
        "swap", f"if {COMPARE} then", "if version and false then", "a_stale_version_is_refused"
    ),
    "inserts over what is there": Wrong(
        "swap",
        COMPARE,
        "expected and version ~= text(expected)",
        "a_second_insert_is_refused_and_shows_what_is_stored",
    ),
    "inserts on an expected version": Wrong(
        "swap",
        COMPARE,
        "version and version ~= text(expected)",
        "an_expected_version_on_an_absent_key_writes_nothing",
    ),
    "rounds versions": Wrong(
        "swap", "stamp(entry, text(expected", "stamp(entry, tostring(expected", "a_first_write_is_stored"
    ),
    "starts versions at one": Wrong(
        "swap",
        "math.floor(now * 1000000)",
        "1",
        "the_version_of_a_new_entry_is_the_clock_in_microseconds",
    ),
    "lets versions stand": Wrong(
        "swap", "expected + 1", "expected", "a_later_version_is_the_expected_one_plus_one"
    ),
    "forgets the fence": Wrong(
        "swap",
        "entry[FENCE] = version",
        "entry[FENCE] = 1",
        "a_first_write_is_stored",
    ),
    "believes the caller's not_before": Wrong(
        "swap",
        "entry[NOT_BEFORE] = delay and",
        "entry[NOT_BEFORE] = not delay and entry[NOT_BEFORE] or delay and",
        "times_that_a_caller_writes_are_ignored",
    ),
    "believes when it was written": Wrong(
        "swap", "entry[WRITTEN] = now_text", "", "idle_is_the_stores_word_not_the_callers"
    ),
    "does not set begun": Wrong("swap", "if begin then", "if false then", "begin_sets_when_the_effect_began"),
    "leaves old fields behind": Wrong(
        "swap", "if version then redis.call('DEL', key) end", "", "a_later_write_clears_both_times"
    ),
    "registers no scope": Wrong(
        "swap",
        "if not was_open then register(scope) end",
        "",
        "a_scan_without_a_scope_lists_all_scopes",
    ),
    "is due at once": Wrong(
        "swap", "text(now + entry[LEASE])", "now_text", "a_held_entry_is_due_when_its_lease_is_over"
    ),
    "removes what is open": Wrong("swap", "state ~= 'done' or ", "", "open_entries_are_never_removed"),
    "removes what has not expired": Wrong(
        "swap", " or tonumber(expires) > now", "", "what_has_not_expired_is_not_removed"
    ),
    "removes what is kept for ever": Wrong(
        "swap",
        "not expires or tonumber(expires) > now",
        "expires and tonumber(expires) > now",
        "what_is_kept_for_ever_is_never_removed",
    ),
    "lets done entries leave at once": Wrong(
        "swap", "(keep + math.max(keep, GRACE)) * 1000", "0", "keep_sets_the_time_of_forgetting"
    ),
    "hides what has expired": Wrong(
        "get",
        "found[at] = read(id)",
        "local e = read(id); found[at] = e and not (e[12] and tonumber(e[12]) < clock()) and e",
        "an_expired_entry_is_never_hidden",
    ),
    "lists what is not due": Wrong(
        "scan", "due and text(now) or '+inf'", "'+inf'", "a_free_entry_is_due_when_its_delay_is_over"
    ),
    "skips ties at the end of a page": Wrong(
        "scan", " and id <= last", "", "pages_of_any_size_show_everything_once"
    ),
    "starts every scope where the page before ended": Wrong(
        "scan", "place and place[1] == scope", "place", "pages_of_any_size_show_everything_once"
    ),
    "shows one state for another": Wrong(
        "scan",
        "open_key(state, scope), lowest",
        "open_key('held', scope), lowest",
        "what_a_scan_found_can_be_written",
    ),
    "shows open entries in a walk": Wrong(
        "walk", "entry[1] == 'done' and ", "", "a_scan_lists_the_states_asked_for_and_no_others"
    ),
    "walks over every scope": Wrong(
        "walk", "(not only or entry[#FIELDS] == only)", "true", "done_entries_are_walked_page_by_page"
    ),
}


def bent(known: Mapping[str, Script], mistake: Wrong) -> Mapping[str, Script]:
    text = known[mistake.script].text
    assert text.count(mistake.right) == 1, f"{mistake.right!r} is not there to be bent"
    return {**known, mistake.script: script(text.replace(mistake.right, mistake.wrong))}


def broken(redis_url: str, open_: Callable[[str, FakeClock], Blocking], promise: str) -> bool:
    assert f"test_{promise}" in contract_tests()
    return (
        failures(
            lambda folder, clock: open_(f"{redis_url}?prefix=wrong-{next(PLACES)}", clock),
            only=[f"test_{promise}"],
        )
        != []
    )


@pytest.mark.parametrize("mistake", WRONG)
def test_a_script_that_makes_a_mistake_breaks_a_promise(redis_url, mistake):
    wrong = WRONG[mistake]
    known = bent(by_hand(), wrong)

    assert broken(redis_url, lambda url, clock: timed(url, clock, known), wrong.breaks)
    assert not broken(redis_url, timed, wrong.breaks), "with the right scripts it is kept"


def test_a_script_that_rounds_times_breaks_a_promise(redis_url):
    # Only a real clock shows it: the clock of a test has round numbers.
    promise = "later_writes_keep_when_the_effect_began"

    def by_the_server(known: Mapping[str, Script]) -> Callable[[str, FakeClock], Blocking]:
        return lambda url, clock: Blocking(RedisPlan(url.partition("=")[2], known), Client(url))

    # To ten seconds: rounded to fractions of a second, one reading of the clock in a hundred would be right.
    rounding = bent(scripts("redis"), Wrong("swap", "'%.17g'", "'%.9g'", promise))
    assert broken(redis_url, by_the_server(rounding), promise)
    assert not broken(redis_url, by_the_server(scripts("redis")), promise)
