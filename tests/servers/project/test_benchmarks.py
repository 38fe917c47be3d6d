"""That the benchmarks of stores with a server measure real work, and compare with code that is as careful."""

from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import RECEIPT, Hand, items
from onefold import Key, Ledger
from tests.processes.project.test_benchmarks import measured, must_be_equally_durable, must_work, rows

CONTESTED = ("postgresql", "mariadb", "redis", "mongodb", "dynamodb", "cassandra")
PLAYERS = {"onefold", "onefold, awaited", "by hand"}


def on_server(store: str) -> Any:
    slow = [pytest.mark.slow] if store in ("cassandra", "dynamodb", "mongodb") else []
    return pytest.param(store, marks=[pytest.mark.store(store), *slow], id=store)


@pytest.mark.timeout(300)  # seconds on a quiet machine; some servers need milliseconds for each key
@pytest.mark.parametrize("store", [on_server(store) for store in CONTESTED])
def test_every_contestant_on_a_server_does_its_work_and_says_how_durably(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
):
    server = request.getfixturevalue(f"{store}_server")
    found = measured(["stores", "--only", store], tmp_path, {f"{store.upper()}_URL": server.url})
    must_work(found)
    must_be_equally_durable(found)
    assert [table["effects"] for table in found["tables"]][:6] == ["each", "none"] * 3
    for table in found["tables"][:6]:
        ran = {row["contestant"] for row in table["rows"] if row["micros_each"]}
        assert ran >= ({"onefold", "by hand"} if "Batches" in table["title"] else PLAYERS), table["title"]
        assert all(row["durability"] for row in table["rows"] if row["micros_each"])
    aimed = {row["contestant"] for _, row in rows(found) if row["target"]}
    assert "by hand" in aimed


@pytest.mark.parametrize("store", [on_server(store) for store in CONTESTED])
def test_what_is_written_by_hand_is_what_the_store_would_have_written(
    store: str, request: pytest.FixtureRequest
):
    url = request.getfixturevalue(f"{store}_url")
    with closing(Ledger(url)) as ledger:
        assert ledger.look(Key(SCOPE, "a")) is None  # which also makes the tables
        with closing(import_module(f"benchmarks.stores.by_hand_{store}").Hand(url)) as hand:
            claims_and_settles(hand, ledger)


def claims_and_settles(hand: Hand, ledger: Ledger) -> None:
    single, *many = items(["a"]) + items(["b", "c"])
    strange = single._replace(token="another's")
    assert hand.claim_one(single)
    assert not hand.claim_one(strange)
    assert not hand.settle_one(strange._replace(now=0.0))
    assert state(ledger, "a") == ("held", single.token, None)
    assert hand.settle_one(single)
    assert hand.claim([*many, strange]) == {item.id for item in many}
    assert hand.claim(items(["b", "c"])) == set()
    assert hand.settle([many[0]._replace(token="another's", now=0.0)]) == 0
    assert hand.settle(many) == 2
    assert [state(ledger, item.label) for item in (single, *many)] == [
        ("done", item.token, RECEIPT) for item in (single, *many)
    ]


def state(ledger: Ledger, label: str) -> tuple[str, str, str | None]:
    entry = ledger.look(Key(SCOPE, label))
    assert entry is not None
    return entry.state, entry.token, entry.body
