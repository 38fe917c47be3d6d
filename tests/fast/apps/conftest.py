"""What tests of applications share: a ledger, and how many mutations a parser must survive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import SQLITE

EVERYDAY, CAMPAIGN = 500, 10_000
"""Mutations for each parser in every run, and with `--slow`."""


@pytest.fixture(params=[SQLITE])
def store(tmp_path: Path) -> str:
    """Return the URL of a ledger; tests/servers/apps gives one on a server."""
    return f"sqlite:///{tmp_path / 'onefold.db'}"


@pytest.fixture(params=[EVERYDAY, pytest.param(CAMPAIGN, marks=pytest.mark.slow)])
def count(request: pytest.FixtureRequest) -> int:
    """Return the number of mutations for each parser."""
    number: int = request.param
    return number
