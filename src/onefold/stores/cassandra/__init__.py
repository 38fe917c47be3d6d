"""Cassandra and Scylla, through `cassandra-driver`: one lightweight transaction per change, sent together.

This module opens a store by URL; the work is in `plan`, `rows`, `client` and `schema`, the statements are in
`statements.cql` and `tables.cql`. No condition could read a clock: the workers' stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable

from onefold.drive import Threaded
from onefold.runtime import now
from onefold.stores.cassandra.address import address
from onefold.stores.cassandra.client import Client
from onefold.stores.cassandra.plan import CassandraPlan
from onefold.stores.cassandra.schema import printable
from onefold.stores.shells import Blocking, Sheltered

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True, clock: Callable[[], float] = now) -> Blocking:
    """Open `cassandra://host1,host2/keyspace`; connects at first use. `clock` is this worker's."""
    found = address(url)
    return Sheltered(CassandraPlan(found.max_skew), Client(found, create, clock))


def aconnect(url: str, create: bool = True, clock: Callable[[], float] = now) -> Threaded:
    """Open the same store for awaiting; a call waits for the driver's futures in a thread, to their end."""
    return Threaded(connect(url, create, clock))


def ddl() -> str:
    """Return the statements that make the tables by hand."""
    return printable()
