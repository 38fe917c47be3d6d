"""What the store makes of a server's answers: refusals, silence, throttling, an index that lags behind."""

from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core.entry import NOTHING, UNKNOWN, Change, Entry, Seen
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import items
from onefold.stores.dynamodb.items import SHARDS
from onefold.stores.dynamodb.requests import Outcome, Refusal
from tests.servers.stores.dynamodb.scripted import (
    LATE,
    NOW,
    THROTTLED,
    WRONG,
    Scripted,
    found,
    refused,
    store,
)

KEYS = sorted((Key("charges", n) for n in range(4)), key=lambda key: key.id)
KEY = KEYS[0]
MINE = Entry("held", token="mine", lease=60.0)
THEIRS = Entry("held", token="theirs", version=7, fence=7, lease=60.0, written=NOW - 100.0)
WRITTEN: dict[str, Any] = {}


def inserts(count: int) -> list[Change]:
    return [Change(key, None, MINE) for key in KEYS[:count]]


# ----- writing


def test_a_batch_that_is_answered_takes_one_round():
    dynamo = store([WRITTEN, refused(KEYS[1], THEIRS), WRITTEN])

    replies = dynamo.swap(inserts(3))

    version = int(NOW * 1_000_000)
    mine = Seen(replace(MINE, version=version, fence=version, written=NOW), 0.0, 60.0)
    assert replies == [mine, Seen(THEIRS, 100.0, 60.0), mine]
    assert len(dynamo.client.asked) == 1


def test_a_refusal_that_tells_nothing_costs_a_second_round_and_no_third():
    dynamo = store([WRITTEN, Refusal(None), Refusal(None)], [found((KEYS[1], THEIRS))])

    replies = dynamo.swap(inserts(3))

    assert replies[1:] == [Seen(THEIRS, 100.0, 60.0), NOTHING]
    assert [request.operation for request in dynamo.client.asked[1]] == ["batch_get_item"]


def test_a_second_look_that_fails_leaves_unknown_only_what_it_was_about():
    dynamo = store([WRITTEN, Refusal(None)], [LATE])

    replies = dynamo.swap(inserts(2))

    assert [reply is UNKNOWN for reply in replies] == [False, True]


def test_what_was_not_answered_is_unknown_and_the_rest_is_known():
    dynamo = store([WRITTEN, LATE, refused(KEYS[2], THEIRS)])

    replies = dynamo.swap(inserts(3))

    assert [reply is UNKNOWN for reply in replies] == [False, True, False]


@pytest.mark.parametrize(
    "outcomes", [[LATE], [LATE, LATE], [LATE, THROTTLED], [THROTTLED, WRITTEN], [THROTTLED, Refusal(None)]]
)
def test_silence_about_one_change_never_hides_the_others(outcomes: list[Outcome]):
    dynamo = store(outcomes, [found()])

    replies = dynamo.swap(inserts(len(outcomes)))

    failed = [isinstance(outcome, Unreachable) for outcome in outcomes]
    assert [reply is UNKNOWN for reply in replies] == failed


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_batch_of_which_nothing_was_done_says_so(count):
    with pytest.raises(Unreachable, match="throttled; nothing was written") as raised:
        store([THROTTLED] * count).swap(inserts(count))

    assert not isinstance(raised.value, Unanswered)


@pytest.mark.parametrize("others", [[], [WRITTEN], [LATE], [THROTTLED]])
def test_what_no_repetition_mends_is_raised(others: list[Outcome]):
    with pytest.raises(Misconfigured, match="it refuses"):
        store([*others, WRONG]).swap(inserts(len(others) + 1))


def test_a_removal_says_that_nothing_is_left_or_what_is():
    removals = [Change(key, 7, None) for key in KEYS[:2]]

    assert store([WRITTEN, refused(KEYS[1], THEIRS)]).swap(removals) == [NOTHING, Seen(THEIRS, 100.0, 60.0)]


def test_an_item_is_never_older_than_nothing():
    ahead = replace(THEIRS, written=NOW + 30.0)

    assert store([found((KEY, ahead))]).get([KEY]) == [Seen(ahead, 0.0, 60.0)]


# ----- reading


def test_a_look_asks_for_each_key_once_and_a_hundred_at_a_time():
    many = [Key("many", n) for n in range(250)]
    dynamo = store(lambda requests: [found() for _ in requests])

    assert dynamo.get([*many, *many]) == [NOTHING] * 500
    [asked] = dynamo.client.asked
    assert [len(request.arguments["RequestItems"]["ledger"]["Keys"]) for request in asked] == [100, 100, 50]
    assert all(request.arguments["RequestItems"]["ledger"]["ConsistentRead"] for request in asked)


def test_no_decision_is_taken_on_a_read_that_may_be_old():
    # Mnemosyne took an eventually consistent read that found nothing for "never started".
    dynamo = store([Refusal(None)], [found((KEY, THEIRS))], [found((KEY, THEIRS))])

    dynamo.swap(inserts(1))
    dynamo.get([KEY])

    reads = [one for round in dynamo.client.asked for one in round if one.operation == "batch_get_item"]
    assert [one.arguments["RequestItems"]["ledger"]["ConsistentRead"] for one in reads] == [True, True]


def test_what_a_look_left_unread_is_asked_for_again():
    dynamo = store([found((KEYS[0], THEIRS), left=KEYS[1:2])], [found((KEYS[1], THEIRS))])

    assert [seen.entry for seen in dynamo.get(KEYS[:2])] == [THEIRS, THEIRS]
    assert dynamo.client.pauses == [0.1]


def test_a_look_that_is_throttled_for_long_says_so():
    dynamo = store(*[[found(left=[KEY])]] * 5)

    with pytest.raises(Unreachable, match="throttled: 1 items were not read"):
        dynamo.get([KEY])


@pytest.mark.parametrize("error", [LATE, THROTTLED, WRONG])
def test_a_look_that_fails_is_an_error(error):
    with pytest.raises(type(error)):
        store([error]).get([KEY])


# ----- an index that lags behind


def row(key: Key, entry: Entry) -> dict[str, Any]:
    """Make a row of the index as it once was."""
    item = items.item(key, entry)
    return {name: item[name] for name in ("open", "due", "id", "scope")}


def listing(*rows: dict[str, Any]) -> Any:
    """Answer queries of all places: each with the rows that stand in it."""

    def answer(requests):
        places = [
            request.arguments["ExpressionAttributeValues"].get(":place", {}).get("S") for request in requests
        ]
        return [{"Items": [row for row in rows if row["open"]["S"] == place]} for place in places]

    return answer


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (THEIRS, True),
        (replace(THEIRS, version=8, body="changed in between"), True),
        (replace(THEIRS, state="done"), False),
        (replace(THEIRS, state="parked", why="failed"), False),
        (replace(THEIRS, written=NOW, version=8), False),
        (None, False),
    ],
)
def test_what_the_index_lists_is_shown_only_if_it_still_stands_there(now, shown):
    stored = [(KEY, now)] if now else []

    dynamo = store(listing(row(KEY, THEIRS)), [found(*stored)])

    page, after = dynamo.scan(None, ("held", "parked"), False, None, 100)
    assert [seen.entry for _, seen in page] == [now] * shown
    assert after is None


def test_what_the_index_lists_twice_is_shown_once():
    renewed = replace(THEIRS, written=NOW, version=8)

    dynamo = store(listing(row(KEY, THEIRS), row(KEY, renewed)), [found((KEY, renewed))])

    page, _ = dynamo.scan(None, ("held",), False, None, 100)
    assert [seen.entry for _, seen in page] == [renewed]


def test_a_scan_of_open_entries_asks_the_index_once_and_reads_what_it_listed():
    dynamo = store(listing(row(KEY, THEIRS)), [found((KEY, THEIRS))])

    dynamo.scan("charges", ("free", "held", "parked"), True, None, 1000)

    first, second = dynamo.client.asked
    assert [request.operation for request in first] == ["query"] * 3 * SHARDS
    assert [request.operation for request in second] == ["batch_get_item"]


def test_a_small_page_asks_one_place_after_the_other_and_stops_when_it_is_full():
    places = items.shard(KEY.id) + 1
    dynamo = store(*[listing(row(KEY, THEIRS))] * places, [found((KEY, THEIRS))])

    page, after = dynamo.scan(None, ("held", "parked"), False, None, 1)

    assert [seen.entry for _, seen in page] == [THEIRS]
    assert [len(asked) for asked in dynamo.client.asked] == [1] * (places + 1)
    assert after is not None


def test_a_page_on_which_nothing_fits_the_scope_still_says_where_to_go_on():
    def nothing_yet(requests):
        return [{"Items": [], "LastEvaluatedKey": row(KEY, THEIRS)}, *[{"Items": []}] * (len(requests) - 1)]

    dynamo = store(nothing_yet, listing())

    page, after = dynamo.scan("nobody's", ("held",), False, None, 100)
    assert (page, after is not None) == ([], True)
    assert dynamo.scan("nobody's", ("held",), False, after, 100) == ([], None)
    start = dynamo.client.asked[1][0].arguments["ExclusiveStartKey"]
    assert start == {"open": {"S": "held/0"}, "due": items.number(NOW - 40.0), "id": {"B": KEY.id}}


@pytest.mark.parametrize("error", [LATE, THROTTLED, WRONG])
def test_a_scan_that_fails_in_one_place_is_an_error(error):
    def one_fails(requests):
        return [error, *[{"Items": []}] * (len(requests) - 1)]

    with pytest.raises(type(error)):
        store(one_fails).scan(None, ("held",), False, None, 100)


def test_a_script_that_is_asked_too_much_fails_the_test():
    with pytest.raises(AssertionError, match="a round more than expected"):
        Scripted().execute_many([])
