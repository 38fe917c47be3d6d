"""The table: made once however many want it, waited for, checked, and left alone by who may not create."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from onefold.core.entry import Change, Entry
from onefold.core.errors import Misconfigured, Unreachable
from onefold.core.key import Key
from onefold.drive import run
from onefold.stores.shells import Clients

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import connect, ddl
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import connected
from onefold.stores.dynamodb.schema import PATIENCE, check, definition, prepare
from tests.servers.stores.dynamodb.pretender import described
from tests.servers.stores.dynamodb.scripted import GONE, LATE, THROTTLED, WRONG, Round, Scripted

NAME = "the dynamodb table ledger"
MAKING: dict[str, Any] = {"Table": {**described("ledger"), "TableStatus": "CREATING"}}
MADE: dict[str, Any] = {"Table": described("ledger")}


def prepared(*rounds: Round, create: bool = True) -> Scripted:
    client = Scripted(*rounds)
    run(prepare("ledger", create, NAME), Clients(client))
    assert not client.rounds, "not everything that was scripted was asked"
    return client


def operations(client: Scripted) -> list[str]:
    return [request.operation for asked in client.asked for request in asked]


# ----- by script


def test_a_table_that_is_there_is_only_looked_at():
    assert operations(prepared([MADE])) == ["describe_table"]


@pytest.mark.parametrize("answer", [MAKING, LATE, THROTTLED], ids=["made", "unanswered", "in use"])
def test_a_missing_table_is_made_and_waited_for_whoever_made_it(answer):
    client = prepared([GONE], [answer], [GONE], [MAKING], [MADE], [{}])

    assert operations(client) == [
        "describe_table",
        "create_table",
        *["describe_table"] * 3,
        "update_time_to_live",
    ]
    assert client.pauses == [0.05, 0.1]


def test_a_table_that_another_is_making_is_waited_for():
    client = prepared([MAKING], [MAKING], [MADE])

    assert operations(client) == ["describe_table"] * 3


def test_an_index_that_is_being_made_is_waited_for():
    table = described("ledger")
    [index] = table["GlobalSecondaryIndexes"]
    half = {"Table": {**table, "GlobalSecondaryIndexes": [{**index, "IndexStatus": "CREATING"}]}}

    assert operations(prepared([half], [MADE])) == ["describe_table"] * 2


def test_a_table_may_be_used_although_it_may_not_expire_entries():
    prepared([GONE], [MAKING], [MADE], [WRONG])


def test_a_table_that_takes_too_long_is_given_up():
    client = Scripted(*[[MAKING]] * 1000)

    with pytest.raises(Unreachable, match=r"still being made after 12\d s"):
        run(prepare("ledger", True, NAME), Clients(client))
    assert PATIENCE <= sum(client.pauses) < PATIENCE + 5


def test_who_may_not_create_is_told_that_there_is_no_table():
    with pytest.raises(Misconfigured, match="does not exist"):
        prepared([GONE], create=False)


def test_who_may_not_make_a_table_is_told_why():
    with pytest.raises(Misconfigured, match="it refuses"):
        prepared([GONE], [WRONG])


@pytest.mark.parametrize("error", [LATE, THROTTLED, WRONG])
def test_a_table_that_cannot_be_looked_at_cannot_be_used(error):
    with pytest.raises(type(error)):
        prepared([error])


def without(table: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in table.items() if each != name}


def other_key(type: str = "B", **more: str) -> dict[str, Any]:
    table = described("ledger")
    keys = [{"AttributeName": "id", "KeyType": "HASH"}]
    keys += [{"AttributeName": name, "KeyType": kind} for name, kind in more.items()]
    types = [{"AttributeName": "id", "AttributeType": type}, *table["AttributeDefinitions"][1:]]
    return {**table, "KeySchema": keys, "AttributeDefinitions": types}


def other_index(**more: Any) -> dict[str, Any]:
    table = described("ledger")
    return {**table, "GlobalSecondaryIndexes": [{**table["GlobalSecondaryIndexes"][0], **more}]}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (other_key("S"), "is not a ledger's"),
        (other_key(scope="RANGE"), "is not a ledger's"),
        (without(described("ledger"), "GlobalSecondaryIndexes"), "is not a ledger's"),
        (other_index(IndexName="onefold_open"), "is not a ledger's"),
        (other_index(KeySchema=[]), "is not a ledger's"),
        (other_index(IndexName="onefold_open_2"), "newer Onefold .layout 2, this one knows 1."),
    ],
)
def test_a_table_of_somebody_elses_is_refused(table, reason):
    with pytest.raises(Misconfigured, match=reason):
        check(table, NAME)


@pytest.mark.parametrize("status", ["DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVED"])
def test_a_table_that_cannot_be_used_now_says_so(status):
    with pytest.raises(Unreachable, match=f"it is {status.lower()}"):
        check({**described("ledger"), "TableStatus": status}, NAME)


def test_a_table_may_be_used_while_it_is_changed():
    check({**described("ledger"), "TableStatus": "UPDATING"}, NAME)


def test_what_is_printed_is_what_the_store_makes():
    text = ddl().partition("--cli-input-json '")[2].partition("'\n")[0]

    assert json.loads(text) == definition("onefold")


# ----- on a server


@pytest.fixture
def made(dynamodb_url: str) -> Iterator[Any]:
    """Lend a bare client, and the name of a table that is not there."""
    client = connected(address(dynamodb_url))
    yield client
    client.close()


@pytest.mark.store("dynamodb")
def test_the_first_use_makes_the_table_with_its_index_and_expiry(dynamodb_url, made):
    store = connect(dynamodb_url)
    name = address(dynamodb_url).table
    assert name not in made.list_tables()["TableNames"], "nothing is made before it is used"

    store.swap([Change(Key("charges", 1), None, Entry("held", token="ann"))])
    store.close()

    told = made.describe_table(TableName=name)["Table"]
    check(told, NAME)
    assert told["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    expiry = made.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


@pytest.mark.store("dynamodb")
def test_a_store_that_may_not_create_leaves_everything_as_it_is(dynamodb_url, made):
    store = connect(dynamodb_url, create=False)

    with pytest.raises(Misconfigured, match="does not exist: `onefold store sql dynamodb:` prints how"):
        store.get([Key("charges", 1)])

    assert address(dynamodb_url).table not in made.list_tables()["TableNames"]


@pytest.mark.store("dynamodb")
def test_a_table_of_another_kind_is_refused_and_left_alone(dynamodb_url, made):
    name = address(dynamodb_url).table
    made.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )

    with pytest.raises(Misconfigured, match="is not a ledger's"):
        connect(dynamodb_url).swap([Change(Key("charges", 1), None, Entry("held"))])

    assert made.scan(TableName=name)["Count"] == 0


@pytest.mark.store("dynamodb")
def test_workers_that_start_at_once_share_one_new_table(dynamodb_url):
    start = threading.Barrier(4)
    won: list[str] = []

    def work(token: str) -> None:
        store = connect(dynamodb_url)
        start.wait()
        [seen] = store.swap([Change(Key("charges", 1), None, Entry("held", token=token))])
        won.append(seen.entry.token)  # type: ignore[union-attr]
        store.close()

    threads = [threading.Thread(target=work, args=(f"worker {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 4
    assert len(set(won)) == 1


@pytest.mark.store("dynamodb")
def test_a_table_that_was_deleted_is_made_again_by_who_may(dynamodb_url, made):
    store = connect(dynamodb_url)
    change = Change(Key("charges", 1), None, Entry("held", token="ann"))
    store.swap([change])
    made.delete_table(TableName=address(dynamodb_url).table)

    with pytest.raises(Misconfigured, match="does not exist"):
        store.swap([change])
    [seen] = store.swap([change])
    store.close()

    assert seen.entry is not None  # type: ignore[union-attr]
