"""Reads what is in the tables of a Cassandra ledger, and what its lists show."""

from typing import Any

from onefold.core.entry import OPEN, State
from onefold.core.key import Key
from onefold.stores.shells import Blocking


def lying(store: Blocking, table: str) -> list[dict[str, Any]]:
    """Read what lies in one of a ledger's tables."""
    rows: list[dict[str, Any]] = store.client.query(f"SELECT * FROM {store.client.address.table(table)}")
    return rows


def listed(store: Blocking, *states: State) -> list[Key]:
    """List entries, page by page."""
    found: list[Key] = []
    after: str | None = None
    while True:
        page, after = store.scan(None, states or OPEN, False, after, 100)
        found += [key for key, _ in page]
        if after is None:
            return found
