"""PostgreSQL, through `psycopg`: one round trip for a claim or a batch, one more to read what losers lost to.

This module opens a store by URL; the work is in `plan`, `client`, `schema` and `joined`.
"""

from __future__ import annotations

from onefold.stores.postgresql.client import AsyncClient, Client
from onefold.stores.postgresql.plan import PostgresPlan
from onefold.stores.shells import Awaited, Blocking
from onefold.stores.sql import printable

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True) -> Blocking:
    """Open `postgresql://user@host:port/database`; connects at first use."""
    return Blocking(PostgresPlan(), Client(url, create))


def aconnect(url: str, create: bool = True) -> Awaited:
    """Open the same store for awaiting."""
    return Awaited(PostgresPlan(), AsyncClient(url, create))


def ddl() -> str:
    """Return the schema as SQL that can be run by hand."""
    return printable("postgresql")
