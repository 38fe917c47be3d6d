"""The files of the repository keep the house rules of `tests/fast/project/test_house.py`."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.fast.project.test_house import RULES, Rule


def files() -> Iterator[Path]:
    """Give the files of the repository, new ones included, ignored ones not."""
    if not (ROOT / ".git").exists():
        # An unpacked archive: there is nobody to ask what is ignored.
        return (
            path for path in sorted(ROOT.rglob("*")) if path.is_file() and not is_made(path.relative_to(ROOT))
        )
    # The checkout may belong to another user than the one who runs the tests.
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return (ROOT / name for name in sorted(listed.split("\0")) if name and (ROOT / name).is_file())


def is_made(path: Path) -> bool:
    return path.parts[0].startswith(".") or "__pycache__" in path.parts


@cache
def texts() -> list[tuple[str, str]]:
    return list(read())


def read() -> Iterator[tuple[str, str]]:
    for path in files():
        try:
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("rule", RULES)
def test_the_repository_keeps_the_rule(rule: Rule):
    assert [complaint for name, text in texts() for complaint in rule(name, text)] == []


def test_the_repository_is_being_read():
    assert {"dev", "pyproject.toml", "src/onefold/version.py"} <= {name for name, _ in texts()}
