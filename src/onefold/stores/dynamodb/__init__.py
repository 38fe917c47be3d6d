"""DynamoDB, through `boto3`: one conditional write per change, a batch at a time, by the worker's clock.

This module opens a store by URL; the work is in `plan`, `requests`, `items`, `client` and `schema`.
"""

from __future__ import annotations

from collections.abc import Callable

from onefold.drive import Threaded
from onefold.runtime import now
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import Client
from onefold.stores.dynamodb.plan import DynamoPlan
from onefold.stores.dynamodb.schema import commands
from onefold.stores.shells import Blocking, Sheltered

__all__ = ["aconnect", "connect", "ddl"]


def connect(url: str, create: bool = True, clock: Callable[[], float] = now) -> Blocking:
    """Open `dynamodb://REGION/TABLE?endpoint=URL`; connects at first use. `clock` is this worker's."""
    found = address(url)
    return Sheltered(DynamoPlan(found.table, found.max_skew), Client(found, create, clock))


def aconnect(url: str, create: bool = True, clock: Callable[[], float] = now) -> Threaded:
    """Open the same store for awaiting; its calls run in threads, to their end."""
    return Threaded(connect(url, create, clock))


def ddl() -> str:
    """Return the commands that make the table by hand."""
    return commands("onefold")
