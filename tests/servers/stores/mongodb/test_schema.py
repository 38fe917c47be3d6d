"""The collections of the MongoDB store: what lies in them, what is read, and how often it is asked."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onefold import stores
from onefold.core.entry import BODY_LIMIT, NOTHING, Change
from onefold.core.key import Key
from onefold.testing.contract.words import entry

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

import bson
from pymongo.monitoring import CommandListener, CommandStartedEvent, register

from onefold.stores.mongodb import connect, documents
from onefold.stores.mongodb.documents import NOW
from onefold.stores.mongodb.schema import INDEXES
from tests.servers.stores.mongodb.ledgers import Server
from tests.servers.stores.words import NEW, claims, keys, stored, tokens

pytestmark = pytest.mark.store("mongodb")

HOSTILE = ["$version", "$$ROOT", "$$NOW", "a.b", "\0", " ", "{'$gt': ''}", "é", "e\u0301", "😀"]


@pytest.fixture
def store(mongodb_url):
    with closing(connect(mongodb_url)) as store:
        yield store


class Commands(CommandListener):
    """Notes what is sent, as the driver tells it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.asked.append(dict(event.command))

    def succeeded(self, event: object) -> None: ...

    def failed(self, event: object) -> None: ...

    def names(self) -> list[str]:
        return [next(iter(asked)) for asked in self.asked]


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Listen to every client that is made from now on."""
    from pymongo import monitoring

    known = list(monitoring._LISTENERS.command_listeners)
    listener = Commands()
    register(listener)
    yield listener
    monitoring._LISTENERS.command_listeners[:] = known


# ----- how often, and how safely


def test_a_claim_is_one_command_and_a_batch_at_most_three(commands, store):
    store.get([NEW])
    commands.asked.clear()
    store.swap(claims([NEW]))
    assert commands.names() == ["findAndModify"]
    commands.asked.clear()
    store.swap(claims([NEW], "bob"))
    assert commands.names() == ["findAndModify"], "a loser hears in the same answer who won"
    commands.asked.clear()
    store.swap(claims(keys(1000)))
    assert commands.names() == ["find", "insert"], "the clock and the write"
    commands.asked.clear()
    store.swap(claims(keys(1001), "bob"))
    assert commands.names() == ["find", "insert", "find"]
    assert len(commands.asked[-1]["filter"]["_id"]["$in"]) == 1000, "it looks only at what it lost"


def test_a_store_waits_for_a_majority_and_its_journal_unless_the_url_asks_for_less(commands, mongodb_url):
    with closing(connect(re.sub("&w=1&journal=true", "", mongodb_url))) as safe:
        safe.swap(claims(keys(2)))
        safe.swap(claims([NEW]))
    told = [asked.get("writeConcern") or asked.get("readConcern") for asked in commands.asked]
    majority = {"w": "majority", "j": True}

    assert [name for name, concern in zip(commands.names(), told, strict=True) if concern == majority] == [
        "createIndexes",
        "update",
        "insert",
        "findAndModify",
    ]
    looks = [concern for name, concern in zip(commands.names(), told, strict=True) if name == "find"]
    assert looks == [{"level": "majority"}] * 2


def test_no_command_carries_what_would_let_the_driver_repeat_it(commands, store):
    store.swap(claims(keys(2)))
    store.swap(claims([NEW]))

    assert all("txnNumber" not in asked for asked in commands.asked)


# ----- what lies in the server


def test_done_entries_leave_the_index_of_open_ones_and_are_marked_for_removal(mongodb_url, store):
    one, two = keys(2)
    held = [stored(reply) for reply in store.swap(claims([one, two]))]
    store.swap([Change(one, held[0].version, entry("done"), keep=3600.0)])
    store.swap([Change(two, held[1].version, entry("done"))])
    with Server(mongodb_url) as database:
        kept, for_ever = (database.onefold_entries.find_one({"_id": key.id}) for key in (one, two))

    assert "due" not in kept
    assert "due" not in for_ever
    assert "ttl" not in for_ever
    later = kept["ttl"].replace(tzinfo=UTC) - datetime.now(UTC)
    assert abs(later - timedelta(days=1, hours=1)) < timedelta(minutes=1), "long after it was forgotten"


def test_a_later_write_takes_the_mark_for_removal_away(mongodb_url, store):
    [held] = store.swap(claims([NEW]))
    [done] = store.swap([Change(NEW, stored(held).version, entry("done"), keep=1e-6)])
    store.swap([Change(NEW, stored(done).version, entry("held", "bob"))])
    with Server(mongodb_url) as database:
        document = database.onefold_entries.find_one({"_id": NEW.id})

    assert "ttl" not in document
    assert document["due"] == pytest.approx(document["written"] + document["lease"])


@pytest.mark.parametrize("text", HOSTILE)
def test_what_callers_write_is_never_read_as_an_expression(store, text):
    fields = {"source": text, "body": text, "fingerprint": text}
    [reply] = store.swap(claims([Key("orders", "$x", text)], text, **fields))
    more = store.swap(claims([Key("$scope", "a", text), Key("$$NOW", "b", text)], text, **fields))

    for told in (stored(reply), *(stored(each) for each in more)):
        assert (told.token, told.source, told.body, told.fingerprint) == (text, text, text, text)
    assert len(store.scan("$$NOW", ("held",), False, None, 9)[0]) == 1


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_no_command_is_larger_than_the_driver_sends(letter):
    largest = letter * (BODY_LIMIT // len(letter.encode()))
    new = claims(keys(600), body=largest)
    later = [replace(change, expected=2**60, settles=at % 2 == 0) for at, change in enumerate(new)]
    for changes, name in ((new, "documents"), (later, "updates")):
        commands = [write.command for write in documents.write_many(changes, 1e9, NOW)]

        assert sum(len(command[name]) for command in commands) == 600
        assert max(len(bson.encode(command)) for command in commands) < 16 * 2**20


@pytest.mark.parametrize("keep", [1e-6, 1e9, 1e15, 1e300])
def test_whatever_is_to_be_kept_has_a_date_at_which_it_may_go(store, keep):
    [held] = store.swap(claims([NEW]))
    [done] = store.swap([Change(NEW, stored(held).version, entry("done"), keep=keep)])

    assert stored(done).expires == pytest.approx(stored(done).written + keep)


def test_removals_and_writes_share_a_batch(store):
    one, two = keys(2)
    [held] = store.swap(claims([one]))
    [done] = store.swap([Change(one, stored(held).version, entry("done"), keep=1e-6)])
    [seen] = store.get([one])
    while seen.idle < 0.001:
        [seen] = store.get([one])
    told = store.swap([Change(one, stored(done).version, None), *claims([two])])

    assert told[0] == NOTHING
    assert tokens(told) == [None, "ann"]


@pytest.mark.parametrize(
    "page",
    [
        documents.list_open("held", None, False, ("many 3", 1e9, b"x"), 10, NOW),
        documents.list_open("held", "many 3", True, None, 10, NOW),
        documents.list_open("held", "many 3", False, ("many 3", 1e9, b"x"), 10, NOW),
    ],
)
def test_a_page_of_open_entries_reads_no_more_than_it_shows(mongodb_url, store, page):
    for number in range(5):
        store.swap(claims(keys(40, f"many {number}"), lease=-9.0))
    done = [stored(reply) for reply in store.swap(claims(keys(100, "done")))]
    pairs = zip(keys(100, "done"), done, strict=True)
    store.swap([Change(key, kept.version, entry("done")) for key, kept in pairs])
    with Server(mongodb_url) as database:
        told = database.command({"explain": page, "verbosity": "executionStats"})["executionStats"]

    assert (told["nReturned"], told["totalDocsExamined"]) == (10, 10)
    assert told["totalKeysExamined"] <= 13


def test_what_is_printed_is_what_is_made(mongodb_url, store):
    store.get([NEW])
    printed = stores.ddl("mongodb:")
    with Server(mongodb_url) as database:
        made = {index["name"]: index for index in database.onefold_entries.list_indexes()}
        note = database.onefold_meta.find_one()

    calls = re.findall(r"onefold_entries\.createIndex\((\{.*?\}), (\{.*\})\);", printed)
    for key, options in calls:
        asked = json.loads(options)
        assert dict(made[asked["name"]]["key"]) == json.loads(key)
        assert asked.items() <= made[asked["name"]].to_dict().items()
    assert len(calls) == len(INDEXES) == len(made) - 1
    assert '"$setOnInsert": {"version": 1}' in printed
    assert note == {"_id": "schema", "version": 1}


def test_a_race_for_one_new_key_has_one_winner_whatever_the_server_makes_of_it(mongodb_url):
    """Two upserts of one key can meet in the server; the one that it refuses is told who was first."""
    with closing(connect(mongodb_url)) as store, ThreadPoolExecutor(16) as pool:
        store.get([NEW])
        for name in keys(20, "raced"):
            told = list(
                pool.map(lambda token, name=name: store.swap(claims([name], token))[0], "abcdefghijklmnop")
            )
            assert len({stored(reply).token for reply in told}) == 1
