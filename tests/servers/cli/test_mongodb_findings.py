"""What `doctor` makes of a MongoDB: what can be lost is said, with what to do, and how bad it is."""

from contextlib import closing

import pytest

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold import Key, Ledger
from onefold.cli import mongodb_findings as findings
from onefold.cli.codes import Code
from tests.fast.cli.judging import assert_bad, by_name
from tests.fast.cli.stage import Cli
from tests.servers.stores.mongodb.ledgers import Server

SAFE = {"w": "majority", "j": True}
ALONE = {"isWritablePrimary": True}
SET = {"setName": "rs0", "hosts": ["a:1", "b:1"], "passives": ["c:1"]}
ROUTER = {"msg": "isdbgrid"}
WHOLE = [{"name": "_id_"}, {"name": "onefold_open"}, {"name": "onefold_ttl"}]


def test_a_safe_replica_set_is_well_in_every_respect():
    judged = [
        findings.version({"version": "8.0.4"}),
        findings.members(SET),
        findings.writes(SAFE, SET),
        findings.engine({"storageEngine": {"name": "wiredTiger", "persistent": True}}),
        findings.collection([{"name": "onefold_entries", "options": {}}]),
        findings.indexes(WHOLE),
    ]

    assert [finding.level for finding in judged] == ["ok"] * len(judged)
    assert [finding.lost + finding.do for finding in judged] == [""] * len(judged)
    assert judged[1].text == "replica set rs0, 3 with data; this one is its primary"
    assert judged[2].text == "j=True, w=majority: what is answered is on the disks of a majority"


@pytest.mark.parametrize(
    ("finding", "level", "words"),
    [
        (findings.members(ROUTER), "look", "routers with different clocks"),
        (findings.writes({"w": 1, "j": True}, SET), "unsafe", "a new primary may not know the last claims"),
        (findings.writes({"w": 2, "j": True}, SET), "unsafe", "before a majority has it"),
        (findings.writes({"w": 1, "j": True}, ROUTER), "unsafe", "before a majority has it"),
        (findings.writes({"w": "majority", "j": False}, SET), "look", "before the journal"),
        (findings.writes({"w": 1}, ALONE), "look", "before the journal"),
        (findings.engine({}), "note", "does not tell"),
        (
            findings.engine({"storageEngine": {"name": "inMemory", "persistent": False}}),
            "unsafe",
            "inMemory, which keeps nothing",
        ),
        (findings.collection([{"options": {"capped": True}}]), "unsafe", "throws its oldest entries away"),
        (findings.collection([{"options": {"collation": {"locale": "de"}}}]), "look", "the rules of de"),
        (findings.indexes(WHOLE[:2]), "note", "onefold store purge"),
        (findings.indexes(WHOLE[:1]), "look", "missing: onefold_open, onefold_ttl"),
    ],
)
def test_what_can_be_lost_is_said_with_what_to_do(finding, level, words):
    assert_bad(finding, level, words)


def test_a_single_server_that_waits_for_its_journal_is_safe():
    assert findings.writes({"w": 1, "j": True}, ALONE).level == "ok"
    assert findings.members(ALONE).level == "ok"


# ----- on a real server


@pytest.fixture
def url(mongodb_url: str) -> str:
    with closing(Ledger(mongodb_url)) as ledger:
        ledger.call(Key("charges", 1), lambda: None)
    return mongodb_url


@pytest.mark.store("mongodb")
def test_a_healthy_server_passes_and_nothing_is_left_behind(cli: Cli, url: str):
    told = cli.json("doctor", url)

    assert told["code"] == Code.FINE, told
    levels = {name: finding["level"] for name, finding in by_name(told).items()}
    assert levels == {
        "round trip": "ok",
        "server": "ok",
        "encryption": "ok",
        "members": "ok",
        "writes": "ok",
        "engine": "note",
        "collection": "ok",
        "indexes": "ok",
        "schema": "ok",
        "clock": "ok",
        "parked": "ok",
    }
    with Server(url) as database:
        assert database.onefold_entries.distinct("scope") == ["charges"]


@pytest.mark.store("mongodb")
def test_a_url_that_does_not_wait_for_the_journal_is_found(cli: Cli, url: str):
    told = cli.json("doctor", url.replace("journal=true", "journal=false"))

    assert told["code"] == Code.PERSON
    assert by_name(told)["writes"]["level"] == "look"


@pytest.mark.store("mongodb")
def test_a_collection_that_throws_entries_away_is_found(cli: Cli, mongodb_url: str):
    with Server(mongodb_url) as database:
        database.create_collection("onefold_entries", capped=True, size=100_000)
    with closing(Ledger(mongodb_url)) as ledger:
        ledger.call(Key("charges", 1), lambda: None)
    told = cli.json("doctor", mongodb_url)

    assert told["code"] == Code.UNSAFE
    assert by_name(told)["collection"]["level"] == "unsafe"


@pytest.mark.store("mongodb")
def test_an_index_that_somebody_dropped_is_found(cli: Cli, url: str):
    with Server(url) as database:
        database.onefold_entries.drop_index("onefold_ttl")
    told = cli.json("doctor", url)

    assert told["code"] == Code.FINE
    assert by_name(told)["indexes"]["text"] == "missing: onefold_ttl"


@pytest.mark.store("mongodb")
def test_the_index_of_open_entries_is_missed_by_name(cli: Cli, url: str):
    with Server(url) as database:
        database.onefold_entries.drop_index("onefold_open")
    told = cli.json("doctor", url)

    assert by_name(told)["indexes"]["level"] == "look"
    assert told["code"] == Code.UNREACHABLE, "lists are refused, and doctor counts what is parked"
