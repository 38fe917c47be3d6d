"""Stores and ledgers on PostgreSQL in both colours behind one face."""

from __future__ import annotations

from typing import Any

from onefold.stores import shells
from onefold.stores.postgresql.client import AsyncClient, Client
from onefold.stores.postgresql.plan import PostgresPlan, Statement
from tests.servers.stores import colours
from tests.servers.stores.callers import Caller, option

__all__ = ["Awaited", "Blocking", "Caller", "option"]


class Blocking(colours.Blocking):
    statement = Statement

    def __init__(self, url: str, **how: Any) -> None:
        super().__init__(shells.Blocking(PostgresPlan(), Client(url, **how)))


class Awaited(colours.Awaited):
    statement = Statement

    def __init__(self, url: str, **how: Any) -> None:
        super().__init__(shells.Awaited(PostgresPlan(), AsyncClient(url, **how)))
