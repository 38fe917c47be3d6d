"""Redis and Valkey, through `redis`: one script call for a claim and for a batch, by the server's clock.

This module opens a store by URL; the work is in `plan`, `client` and the scripts in `stores/lua`.
What is acknowledged is as safe as the server's persistence; across a failover it is best effort.
"""

from __future__ import annotations

from onefold.stores.lua import listing
from onefold.stores.redis.client import AsyncClient, Client
from onefold.stores.redis.plan import RedisPlan
from onefold.stores.shells import Awaited, Blocking

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True) -> Blocking:
    """Open `redis://user:password@host:port/database?prefix=onefold`; connects at first use."""
    client = Client(url, create)
    return Blocking(RedisPlan(client.address.prefix), client)


def aconnect(url: str, create: bool = True) -> Awaited:
    """Open the same store for awaiting."""
    client = AsyncClient(url, create)
    return Awaited(RedisPlan(client.address.prefix), client)


def ddl() -> str:
    """Return the layout of the keys and the scripts that keep it; a server needs none of it beforehand."""
    return listing("redis")
