"""The page of traps leaves out no number and no clause, and every row names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.checkout import ROOT
from tests.fast.docs.test_guarantees import names_of_tests, rows, unheld

PAGE = (ROOT / "docs" / "traps.md").read_text("utf-8")
CLAUSES = {
    1: 2,
    2: 1,
    3: 2,
    4: 2,
    5: 2,
    6: 2,
    7: 2,
    8: 3,
    9: 2,
    10: 3,
    11: 3,
    12: 4,
    13: 4,
    14: 8,
    15: 5,
    16: 2,
}
"""How many things each of the sixteen traps of the outside says."""
MISTAKES = 61
OUTSIDE, DOCUMENTS = "## Traps of the outside", "## Mistakes of the five documents"
EDGES = "## Edges of the ledger"
"""The rows of this section have no numbers."""


def wanted() -> list[str]:
    traps = [
        f"{number}{'abcdefgh'[at] if count > 1 else ''}"
        for number, count in CLAUSES.items()
        for at in range(count)
    ]
    return [*traps, *map(str, range(1, MISTAKES + 1))]


def numbered(page: str) -> list[str]:
    """Read the numbers of the rows, those of the outside first."""
    numbered_part = page.partition(f"\n{EDGES}\n")[0]
    _, outside, documents = re.split(rf"^{OUTSIDE}$|^{DOCUMENTS}$", numbered_part, flags=re.MULTILINE)
    return [
        row.split("|")[1].strip() for part in (outside, documents) for row in rows(part) if row[2:3] != "|"
    ]


def flaws(page: str, tests: set[str]) -> list[str]:
    """Say what is missing on the page: numbers out of their place, or rows without a test."""
    found = numbered(page)
    gone = [one for one in wanted() if one not in found] if found != wanted() else []
    return [*(gone or (["the order of the rows"] if found != wanted() else [])), *unheld(page, tests)]


def test_every_trap_and_every_mistake_names_a_test_that_exists():
    assert flaws(PAGE, names_of_tests(ROOT / "tests")) == []


@pytest.mark.parametrize("lost", ["| 13c |", "| 61 |", "`test_periods_are_half_open_and_of_utc`"])
def test_a_number_or_a_test_that_is_gone_would_be_found(lost):
    line = next(line for line in PAGE.splitlines() if lost in line)
    without = PAGE.replace(line, "" if lost.startswith("|") else line.replace(lost, "`test_that_is_gone`"))

    assert flaws(without, names_of_tests(ROOT / "tests"))
