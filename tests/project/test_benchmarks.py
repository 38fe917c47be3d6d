"""That the benchmarks measure real work: every subject runs, nobody skips, and a missing peer is named.

How fast anything is must never decide a test; `./dev bench` prints that for people.
"""

import json
import os
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.measure import Absent, Contestant, Keys, Row, Skipped, Table, compare, shown
from benchmarks.stores.by_hand import RECEIPT, Hand, items
from onefold import Key, Ledger

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = {"batches", "singles", "memory", "concurrent", "overhead", "growth"}
CONTESTED = ("postgresql", "mariadb", "redis", "mongodb", "dynamodb", "cassandra")
PLAYERS = {"onefold", "onefold, awaited", "by hand"}
ROW = set(Row.__dataclass_fields__)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a quick run writes."""
    return measured(["ledger"], tmp_path_factory.mktemp("bench"), {})


def measured(asked: list[str], folder: Path, more: dict[str, str]) -> dict[str, Any]:
    """Make a quick run, and return what it writes."""
    file = folder / "found.json"
    command = ["benchmarks/run.py", *asked, "--quick", "--folder", str(folder), "--json", str(file)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ONEFOLD_")} | more
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert [path for path in folder.iterdir() if path != file] == [], "files were left behind"
    result: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return result


def rows(found: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(table, row) for table in found["tables"] for row in table["rows"]]


def test_every_subject_of_the_ledger_is_measured(found: dict[str, Any]):
    assert {table["subject"] for table in found["tables"]} == SUBJECTS


def test_a_run_says_on_what_it_was_measured(found: dict[str, Any]):
    assert found["machine"]["fsync_micros"] > 0
    assert set(found["versions"]) == {"exactly-once", "dbos", "idemkit"}


def test_every_contestant_runs_each_effect_once_and_no_duplicate(found: dict[str, Any]):
    must_work(found)


def must_work(found: dict[str, Any]) -> None:
    for table, row in rows(found):
        assert set(row) == ROW
        if not row["note"].startswith("not run: "):
            assert row["items"] > 0, row
            assert row["effects"] == (row["items"] if table["effects"] == "each" else 0), row
            assert row["micros_each"] > 0, row


def test_contestants_of_one_table_have_the_same_durability(found: dict[str, Any]):
    must_be_equally_durable(found)


def must_be_equally_durable(found: dict[str, Any]) -> None:
    for table in found["tables"]:
        assert len({row["durability"] for row in table["rows"] if row["micros_each"]}) == 1, table["title"]


def test_each_table_that_has_a_target_says_whether_it_was_reached(found: dict[str, Any]):
    for _, row in rows(found):
        assert (row["reached"] is None) == (not row["target"])
    aimed = {table["subject"] for table, row in rows(found) if row["target"]}
    assert aimed >= SUBJECTS - {"singles", "memory"}  # their targets are peers, which may be absent


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


def test_a_store_without_a_server_is_said_to_be_unmeasured_and_why(tmp_path: Path):
    found = measured(["stores", "--only", "mongodb"], tmp_path, {"MONGODB_URL": ""})
    [table] = found["tables"]
    assert table["title"] == "mongodb was not measured"
    assert [row["note"] for row in table["rows"]] == [
        "not run: MONGODB_URL is not set, and nobody starts servers: ./dev bench stores --only mongodb"
    ]


def test_a_server_that_cannot_be_started_is_said_to_be_so_by_its_launcher(tmp_path: Path):
    launcher = tmp_path / "python"
    launcher.write_text("#!/bin/sh\necho 'mongodb: it is not installed' >&2\nexit 1\n")
    launcher.chmod(0o755)
    (folder := tmp_path / "bench").mkdir()
    given = {"MONGODB_URL": "", "ONEFOLD_SERVERS_PYTHON": str(launcher)}
    [table] = measured(["stores", "--only", "mongodb"], folder, given)["tables"]
    assert [row["note"] for row in table["rows"]] == ["not run: mongodb: it is not installed"]


def contestant(name: str, effects: float) -> Contestant:
    """One that runs this part of the effects asked for, whether keys are new or not."""
    return Contestant(name, "none", lambda keys: int(len(keys) * effects))


@pytest.mark.parametrize(
    ("kind", "ran"), [("each", 0.5), ("each", 0), ("each", 2), ("none", 1)], ids=lambda value: str(value)
)
def test_a_contestant_that_skips_or_repeats_work_is_no_winner(kind: Any, ran: float):
    with pytest.raises(Skipped, match="lazy"):
        compare("planted", [contestant("lazy", ran)], [["a", "b"]], kind)


def test_contestants_take_turns_and_slow_ones_get_fewer_keys():
    played: list[tuple[str, int]] = []

    def play(name: str, at_most: int | None) -> Contestant:
        def played_by(keys: Keys) -> int:
            played.append((name, len(keys)))
            return len(keys)

        return Contestant(name, "none", played_by, at_most)

    compare("turns", [play("a", None), play("slow", 1)], [["1", "2"], ["3", "4"]])
    warm_up, turns = played[:2], played[2:]
    assert warm_up == [("a", 1), ("slow", 1)]
    assert turns == [("a", 2), ("slow", 1), ("slow", 1), ("a", 2)]


def test_what_a_contestant_prepares_before_a_round_is_not_timed():
    now = 0.0

    def passes(seconds: float) -> int:
        nonlocal now
        now += seconds
        return int(seconds)

    one = Contestant("one", "none", lambda keys: passes(len(keys)), before=lambda: passes(1000))
    table = compare("prepared", [one], [["a", "b"], ["c", "d"]], clock=lambda: now)
    assert table.row("one").micros_each == 1e6


def test_the_time_of_the_processor_is_not_told_where_other_processes_work():
    elsewhere = Contestant("elsewhere", "none", len, in_process=False)
    table = compare("processes", [contestant("here", 1), elsewhere], [["a"]])
    assert [row.processor_micros is None for row in table.rows] == [False, True]
    assert "elsewhere" in shown(table)


def test_the_notes_of_a_table_stand_below_its_rows():
    table = Table("noted", [Row("ours", note="not run: planted")], notes=["first", "second"])
    assert shown(table).splitlines()[-3:] == [
        f"  {'ours':<34} not run: planted",
        "  first",
        "  second",
    ]


def test_a_peer_that_is_absent_is_said_to_be_so_and_aimed_at_by_nobody():
    table = compare("absent", [contestant("ours", 1), Absent("peer", "no module")], [["a"]])
    table.aim_at_fastest(["peer"], 1.0)
    assert table.row("peer") == Row("peer", note="not run: no module")


@pytest.mark.parametrize(("micros", "reached"), [(5.0, False), (10.0, True), (20.0, True)])
def test_a_target_is_reached_when_the_other_needs_that_much_longer(micros: float, reached: bool):
    ours = Row("ours", micros_each=10.0, ratio=1.0)
    fast = Row("fast", micros_each=micros, ratio=micros / 10)
    slow = Row("slow", micros_each=99.0, ratio=9.9)
    table = Table("aims", [ours, slow, fast])
    table.aim_at_fastest(["fast", "slow"], 1.0)
    assert (fast.reached, slow.reached) == (reached, None)


@pytest.mark.parametrize(("micros", "reached"), [(19.9, True), (20.1, False)])
def test_a_target_in_microseconds_is_a_ceiling(micros: float, reached: bool):
    table = Table("ceiling", [Row("ours", micros_each=micros)])
    table.aim_below("ours", 20.0)
    assert table.rows[0].reached is reached
