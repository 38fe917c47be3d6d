"""MariaDB, through `PyMySQL` and `aiomysql`: one round trip for a claim or a batch, by the server's clock.

This module opens a store by URL; the work is in `plan`, `client`, `schema` and `joined`.
"""

from __future__ import annotations

from onefold.stores.mariadb.client import AsyncClient, Client
from onefold.stores.mariadb.plan import MariaPlan
from onefold.stores.shells import Awaited, Blocking
from onefold.stores.sql import printable

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True) -> Blocking:
    """Open `mariadb://user:password@host:port/database`; connects at first use."""
    return Blocking(MariaPlan(), Client(url, create))


def aconnect(url: str, create: bool = True) -> Awaited:
    """Open the same store for awaiting."""
    return Awaited(MariaPlan(), AsyncClient(url, create))


def ddl() -> str:
    """Return the schema as SQL that can be run by hand."""
    return printable("mariadb")
