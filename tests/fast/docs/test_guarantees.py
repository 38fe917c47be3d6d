"""The promises name tests that exist, what is not promised comes first, and the words are the ones we use."""

import re
from pathlib import Path

import pytest

import onefold
from tests.checkout import ROOT

GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
UNTESTED = "not tested)"


def names_of_tests(folder: Path) -> set[str]:
    found = (
        re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE) for path in folder.rglob("*.py")
    )
    return {name for names in found for name in names}


def rows(page: str) -> list[str]:
    """Return the rows of all tables, without their heads."""
    return [
        line
        for line, before in zip(page.splitlines()[1:], page.splitlines(), strict=False)
        if line.startswith("| ") and before.startswith("|")
    ]


def unheld(page: str, tests: set[str]) -> list[str]:
    """Return the rows that name no test, or one that is gone."""
    return [
        row
        for row in rows(page)
        if UNTESTED not in row and not ((named := set(re.findall(r"`(test_\w+)`", row))) and named <= tests)
    ]


def test_every_promise_names_a_test_that_exists():
    assert rows(GUARANTEES)
    assert unheld(GUARANTEES, names_of_tests(ROOT / "tests")) == []


def test_every_test_that_a_page_names_exists():
    named = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"`(test_\w{12,})`", page.read_text())
    }

    assert "test_a_second_signal_cuts_the_grace_short" in named
    assert named - names_of_tests(ROOT / "tests") == set()


@pytest.mark.parametrize(
    "row", ["| a promise | with no test |", "| a promise | `test_that_was_never_written` |"]
)
def test_a_promise_without_a_test_is_found(row):
    assert unheld(f"| what | test |\n|---|---|\n{row}\n", {"test_that_exists"}) == [row]


def test_what_is_not_promised_comes_first():
    assert re.findall(r"^## (.*)", GUARANTEES, re.MULTILINE)[0] == "What is not promised"


def test_every_public_name_is_in_the_glossary():
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")

    assert [name for name in onefold.__all__ if name not in glossary and not name.startswith("__")] == []
