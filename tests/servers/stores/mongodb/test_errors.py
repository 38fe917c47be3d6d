"""What a MongoDB says in trouble, through the real driver: not done, perhaps done, or never to be done."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from onefold import Ledger
from onefold.core.entry import NOTHING, UNKNOWN, Change, Seen
from onefold.core.errors import Locked, Misconfigured, Unanswered, Unreachable
from onefold.testing.contract.words import entry

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold.stores.mongodb import aconnect, connect
from tests.servers.stores.mongodb.pretender import page, pretending, refusal
from tests.servers.stores.words import NEW, claims, keys, stored

SHORT = "directConnection=true&serverSelectionTimeoutMS=300&connectTimeoutMS=300&socketTimeoutMS=300"


def claimed(where: str, count: int = 1, user: str = "") -> Any:
    """Ask for claims of a server that pretends."""
    with closing(connect(f"mongodb://{user}{where}/shop?{SHORT}")) as store:
        return store.swap(claims(keys(count)))


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (13, Misconfigured, "does not let this user do it: because; let its owner create"),
        (59, Misconfigured, "lacks a command that Onefold needs"),
        (121, Misconfigured, "refuses the entry, because somebody set rules for it"),
        (166, Misconfigured, "something else under our names"),
        (72, Misconfigured, "refuses: because"),
        (10107, Unreachable, "is not the primary, or not any more; nothing was written"),
        (13435, Unreachable, "is not the primary"),
        (14031, Unreachable, "has a full disk, and takes no claims: make room, or onefold store purge"),
        (112, Locked, "has another writer on the entry; nothing was written"),
    ],
)
@pytest.mark.parametrize(("count", "command"), [(1, "findAndModify"), (3, "insert")])
def test_what_a_server_refuses_is_told_with_what_to_do(code, kind, words, count, command):
    with pretending(**{command: refusal(code)}) as where, pytest.raises(kind) as raised:
        claimed(where, count)

    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"mongodb at {where}/shop ")
    assert words in str(raised.value)


@pytest.mark.parametrize("code", [11600, 11601, 11602, 91, 189, 50, 262, 6, 9001, 424242])
@pytest.mark.parametrize(("count", "command"), [(1, "findAndModify"), (3, "insert")])
def test_what_was_interrupted_may_have_been_done(code, count, command):
    with pretending(**{command: refusal(code)}) as where:
        assert claimed(where, count) == [UNKNOWN] * count


@pytest.mark.parametrize(("count", "command"), [(1, "findAndModify"), (3, "insert")])
def test_a_write_that_a_majority_does_not_have_may_be_undone(count, command):
    late = {"ok": 1.0, "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}
    with pretending(**{command: late | {"value": None}}) as where:
        assert claimed(where, count) == [UNKNOWN] * count


def test_a_batch_of_which_a_part_failed_is_unknown_as_a_whole():
    part = {"ok": 1.0, "n": 2, "writeErrors": [{"index": 0, "code": 112, "errmsg": "conflict"}]}
    with pretending(insert=part) as where:
        assert claimed(where, 3) == [UNKNOWN] * 3


def test_a_batch_that_no_repetition_mends_says_so():
    part = {"ok": 1.0, "n": 2, "writeErrors": [{"index": 0, "code": 121, "errmsg": "rules"}]}
    with pretending(insert=part) as where, pytest.raises(Misconfigured, match="somebody set rules"):
        claimed(where, 3)


TAKEN = {"index": 1, "code": 11000, "errmsg": "duplicate key"}


def test_a_failed_look_leaves_only_the_losers_unknown():
    part = {"ok": 1.0, "n": 1, "writeErrors": [TAKEN]}
    with pretending(insert=part, find=refusal(10107)) as where:
        won, lost = claimed(where, 2)

    assert (stored(won).token, stored(won).written) == ("ann", 9.0)
    assert lost is UNKNOWN


def test_an_insert_that_counts_fewer_than_it_explains_is_looked_at_as_a_whole():
    part = {"ok": 1.0, "n": 0, "writeErrors": [TAKEN]}
    with pretending(insert=part) as where:
        assert claimed(where, 2) == [NOTHING] * 2


@pytest.mark.parametrize("code", [10107, 14031, 112])
def test_a_refused_second_write_leaves_the_first_one_known(code):
    one, two = keys(2)
    batch = [*claims([one]), Change(two, 7, entry("done"))]
    with (
        pretending(insert={"ok": 1.0, "n": 1}, update=refusal(code)) as where,
        closing(connect(f"mongodb://{where}/shop?{SHORT}")) as store,
    ):
        won, unknown = store.swap(batch)

    assert stored(won).token == "ann"
    assert unknown is UNKNOWN


def test_a_lost_race_for_a_new_key_is_looked_at_and_not_told_as_an_error():
    there = {"_id": keys(1)[0].id, "state": "held", "token": "bob", "version": 7, "fence": 7, "written": 1.0}
    with pretending(findAndModify=refusal(11000), find=page(there | {"now": 3.0})) as where:
        [reply] = claimed(where)

    assert isinstance(reply, Seen)
    assert reply.entry is not None
    assert (reply.entry.token, reply.idle) == ("bob", 2.0)


def test_a_lost_race_that_cannot_be_looked_at_is_unknown():
    with pretending(findAndModify=refusal(11000), find=refusal(10107)) as where:
        assert claimed(where) == [UNKNOWN]


def test_a_wrong_password_is_told_without_repeating_it():
    refused = refusal(18, "Authentication failed.")
    with (
        pretending({"saslSupportedMechs": ["SCRAM-SHA-256"]}, saslStart=refused) as where,
        pytest.raises(Misconfigured) as raised,
    ):
        claimed(where, user="ann:hunter2@")

    assert str(raised.value) == (
        f"mongodb at {where}/shop refuses the connection: Authentication failed; "
        "check the user, password and authSource in the store's URL"
    )
    assert raised.value.__cause__ is None


def test_a_server_that_wants_a_password_says_so():
    wants = refusal(13, "command find requires authentication")
    with pretending(meta=wants) as where, pytest.raises(Misconfigured, match="requires authentication"):
        claimed(where)


@pytest.mark.parametrize(
    ("hello", "kind", "words"),
    [
        ({"maxWireVersion": 8}, Misconfigured, "4.4"),
        (
            {"isWritablePrimary": False, "ismaster": False, "secondary": True, "setName": "rs0", "hosts": []},
            Unreachable,
            "is not the primary, and claims are made there only; nothing was asked",
        ),
    ],
)
def test_a_server_that_cannot_hold_a_ledger_is_refused(hello, kind, words):
    with pretending(hello) as where, pytest.raises(kind) as raised:
        claimed(where)

    assert words in str(raised.value)
    assert not isinstance(raised.value, Unanswered)


def test_a_ledger_of_the_future_is_refused_with_a_sentence():
    with (
        pretending(meta=page({"_id": "schema", "version": 2})) as where,
        pytest.raises(Misconfigured) as raised,
    ):
        claimed(where)

    assert "was written by a newer Onefold (schema 2, this one knows 1): upgrade" in str(raised.value)


def test_a_full_server_starts_no_effect():
    ran: list[int] = []
    with (
        pretending(findAndModify=refusal(14031)) as where,
        closing(Ledger(f"mongodb://{where}/shop?{SHORT}")) as ledger,
        pytest.raises(Unreachable, match="full disk"),
    ):
        ledger.call(NEW, lambda: ran.append(1))

    assert ran == []


def test_the_same_is_told_awaited():
    async def main(where: str) -> None:
        store = aconnect(f"mongodb://{where}/shop?{SHORT}")
        with pytest.raises(Unreachable, match="full disk"):
            await store.swap(claims([NEW]))
        await store.close()

    with pretending(findAndModify=refusal(14031)) as where:
        asyncio.run(main(where))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_text_that_cannot_be_written_down_is_refused_before_anything_is_asked(text):
    with (
        pretending() as where,
        closing(connect(f"mongodb://{where}/shop?{SHORT}")) as store,
        pytest.raises(Misconfigured, match="lone surrogate; nothing was asked"),
    ):
        store.swap(claims([NEW], body=text))
