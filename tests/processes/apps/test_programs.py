"""The modules of applications that are programs of their own, started as the docs start them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("command", "text", "code", "says"),
    [
        (["onefold.apps.messages.moving", "-", "--store", "sqlite:///o.db"], '{"Items": [{}]}', 1, "no id"),
        (["onefold.apps.listings", "sqlite:///flats.db"], "", 0, "add --apply to make it"),
    ],
)
def test_a_module_that_is_a_program_runs_as_one(
    command: list[str], text: str, code: int, says: str, tmp_path: Path
):
    words = [sys.executable, "-m", *command]
    ended = subprocess.run(words, cwd=tmp_path, input=text, capture_output=True, text=True, check=False)

    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
