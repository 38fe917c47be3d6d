"""MongoDB, through `pymongo`: one command for a claim, two or three for a batch, by the server's clock.

This module opens a store by URL; the work is in `plan`, `documents`, `client` and `schema`. What is
acknowledged is on the disks of a majority, unless the URL asks for less.
"""

from __future__ import annotations

from onefold.stores.mongodb.client import AsyncClient, Client
from onefold.stores.mongodb.plan import MongoPlan
from onefold.stores.mongodb.schema import script
from onefold.stores.shells import Awaited, Blocking, Sheltered

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True) -> Blocking:
    """Open `mongodb://user:password@host:port/database`; connects at first use."""
    return Sheltered(MongoPlan(), Client(url, create))


def aconnect(url: str, create: bool = True) -> Awaited:
    """Open the same store for awaiting."""
    return Awaited(MongoPlan(), AsyncClient(url, create))


def ddl() -> str:
    """Return what makes the collections by hand, for mongosh."""
    return script()
