"""That the benchmarks measure real work: every subject runs, nobody skips, and a missing server is named.

They run as processes, as for people. How fast anything is must never decide a test; `./dev bench` shows it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Row
from tests.checkout import ROOT

SUBJECTS = {"batches", "singles", "memory", "concurrent", "overhead", "growth"}
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
