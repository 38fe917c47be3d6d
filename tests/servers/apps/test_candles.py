"""Candles with its ledger and its bars in PostgreSQL; the test is the fast one."""

from __future__ import annotations

import pytest

from tests.databases import POSTGRESQL
from tests.fast.apps.test_candles import (  # noqa: F401
    test_every_bar_is_stored_once_through_trouble_and_a_restart,
)


@pytest.fixture(params=[POSTGRESQL])
def places(postgresql_url: str) -> tuple[str, str]:
    """Return a ledger and a database for bars."""
    return postgresql_url, postgresql_url
