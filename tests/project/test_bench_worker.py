"""That the benchmark of the worker measures real work; how fast it is must never decide a test."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_record_of_the_benchmark_is_acted_upon_and_every_stage_is_told(tmp_path: Path):
    file = tmp_path / "found.json"
    command = ["benchmarks/run.py", "worker", "--quick", "--folder", str(tmp_path), "--json", str(file)]
    ended = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    tables = json.loads(file.read_text("utf-8"))["tables"]
    assert [table["subject"] for table in tables] == ["stages", "stages"]
    for table in tables:
        assert all(row["effects"] == row["items"] > 0 for row in table["rows"]), table
        [on_disk] = [row for row in table["rows"] if row["contestant"] == "worker on SQLite"]
        assert all(stage in on_disk["note"] for stage in ("read", "claim", "settle", "worker"))


def test_a_subject_that_is_not_there_is_named():
    command = ["benchmarks/run.py", "worker", "--only", "nothing"]
    ended = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode != 0
    assert "'nothing' is none of stages" in ended.stderr
