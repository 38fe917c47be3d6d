"""A look at what lies in the tables of a Cassandra themselves."""

from typing import Any

from onefold.stores.shells import Blocking


def lying(store: Blocking, table: str) -> list[dict[str, Any]]:
    """Read what lies in one of a ledger's tables."""
    rows: list[dict[str, Any]] = store.client.query(f"SELECT * FROM {store.client.address.table(table)}")
    return rows
