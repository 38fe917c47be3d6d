"""That the benchmark of the worker measures real work; how fast it is must never decide a test.

The alternatives' packages are not installed here: their rows must say so, and everything else must run.
"""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worker.processes import beside, last_words
from benchmarks.worker.proof import wait_until
from tests.checkout import ROOT

BUILT_IN = [
    "Onefold's worker, one-shot",
    "Onefold's worker, idempotent",
    "naive loop, commit per record",
    "naive loop, commit per page",
]
PACKAGES = {
    "dlt, merge into SQLite": "dlt",
    "FastStream on NATS JetStream": "faststream",
    "Celery on Redis, with a lock": "celery",
    "Dramatiq on Redis, with a lock": "dramatiq",
    "DBOS, a workflow per record": "dbos",
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    named = ("ONEFOLD_", "REDIS_URL")  # no server is started or used, whatever the tests have
    env = {name: value for name, value in os.environ.items() if not name.startswith(named)}
    command = [sys.executable, "benchmarks/run.py", "worker", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """What a quick run of every subject prints, and the tables that it writes."""
    folder = tmp_path_factory.mktemp("bench")
    file = folder / "found.json"
    ended = bench("--quick", "--folder", str(folder), "--json", str(file))
    assert ended.returncode == 0, ended.stderr
    assert [path for path in folder.iterdir() if path != file] == [], "files were left behind"
    return ended.stdout, json.loads(file.read_text("utf-8"))["tables"]


@pytest.fixture
def tables(ended: tuple[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ended[1]


@pytest.fixture
def alternatives(tables: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of the table of alternatives, by contestant."""
    return {row["contestant"]: row for row in tables[-1]["rows"]}


def test_every_record_of_the_benchmark_is_acted_upon_and_every_stage_is_told(tables: list[dict[str, Any]]):
    assert [table["subject"] for table in tables] == ["stages", "stages", "alternatives"]
    for table in tables[:2]:
        assert all(row["effects"] == row["items"] > 0 for row in table["rows"]), table
        [on_disk] = [row for row in table["rows"] if row["contestant"] == "worker on SQLite"]
        assert all(stage in on_disk["note"] for stage in ("read", "claim", "settle", "worker"))


def test_the_worker_and_the_naive_loops_act_on_every_record(alternatives: dict[str, dict[str, Any]]):
    assert list(alternatives) == [*BUILT_IN, *PACKAGES]
    for name in BUILT_IN:
        row = alternatives[name]
        assert row["effects"] == row["items"] > 0, row
        assert row["durability"] == "WAL, FULL", row
        assert row["ratio"] > 0, row


@pytest.mark.parametrize("name", PACKAGES)
def test_an_alternative_without_its_package_says_so(alternatives: dict[str, dict[str, Any]], name: str):
    row, package = alternatives[name], PACKAGES[name]
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed here, which is not asked for")
    assert row["note"] == f"not run: No module named '{package}'"
    assert (row["items"], row["micros_each"], row["target"]) == (0, None, "")


def test_only_the_naive_loop_with_a_commit_per_record_has_a_target(alternatives: dict[str, dict[str, Any]]):
    aimed = {name: row["target"] for name, row in alternatives.items() if row["target"]}
    assert aimed == {"naive loop, commit per record": ">= 3x"}
    row = alternatives["naive loop, commit per record"]
    assert row["reached"] is (row["ratio"] >= 3)


def test_naive_loops_are_compared_with_both_kinds_of_effect(alternatives: dict[str, dict[str, Any]]):
    one_shot, idempotent = (alternatives[name]["micros_each"] for name in BUILT_IN[:2])
    for name in BUILT_IN[2:]:
        row = alternatives[name]
        assert row["ratio"] == pytest.approx(row["micros_each"] / one_shot)
        assert row["note"] == f"{row['micros_each'] / idempotent:.2f}x against idempotent"


def test_one_line_below_the_table_says_what_each_contestant_guarantees(
    ended: tuple[str, list[dict[str, Any]]],
):
    printed, tables = ended
    for name in [*BUILT_IN, *PACKAGES]:
        [line] = [note for note in tables[-1]["notes"] if note.startswith((f"{name}:", f"{name} ("))]
        assert f"  {line}\n" in printed
        assert len(line) > len(name) + 40, line


def test_one_subject_can_be_chosen(tmp_path: Path):
    file = tmp_path / "found.json"
    ended = bench("--quick", "--only", "stages", "--folder", str(tmp_path), "--json", str(file))
    assert ended.returncode == 0, ended.stderr
    assert {table["subject"] for table in json.loads(file.read_text("utf-8"))["tables"]} == {"stages"}


def test_a_subject_that_is_not_there_is_named():
    ended = bench("--only", "nothing")
    assert ended.returncode != 0
    assert "'nothing' is none of stages, alternatives" in ended.stderr


# A process that holds a lock on a file for as long as it lives.
HOLDER = """
import fcntl, signal, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
signal.pause()
"""


def is_locked(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_a_process_beside_the_benchmark_ends_with_its_block(tmp_path: Path):
    log, lock = tmp_path / "log", tmp_path / "lock"
    with beside([sys.executable, "-c", HOLDER, lock], log, os.environ):
        wait_until(lambda: last_words(log) == "held", "holder", lambda: last_words(log))
        assert is_locked(lock)
    assert not is_locked(lock)


def test_a_process_beside_the_benchmark_ends_when_the_benchmark_is_killed(tmp_path: Path):
    log, lock = tmp_path / "log", tmp_path / "lock"
    killed = f"""
import os, signal, sys
from pathlib import Path
from benchmarks.worker.processes import beside, last_words
from benchmarks.worker.proof import wait_until
log = Path({str(log)!r})
with beside([sys.executable, "-c", {HOLDER!r}, {str(lock)!r}], log, os.environ):
    wait_until(lambda: last_words(log) == "held", "holder", lambda: last_words(log))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", killed], cwd=ROOT, check=False)
    assert ended.returncode == -9, "it waits for the holder before it is killed"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # returns when the holder has ended
