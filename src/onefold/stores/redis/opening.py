"""The first words on a new connection: is this a server that can hold a ledger, and does it hold one?

As a flow over the same client. Whoever may not create leaves the database as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onefold.core.errors import Misconfigured, Unreachable
from onefold.stores.redis.address import Address
from onefold.stores.redis.errors import CLUSTER
from onefold.stores.redis.plan import Command
from onefold.stores.shells import on_client

LAYOUT = 1
"""The number of the layout that this Onefold reads and writes."""

OLDEST = 6


async def prepare(create: bool, at: Address) -> None:
    """Make sure that the server can be used, and that a ledger is there; make one if that is wanted."""
    meta = f"{{{at.prefix}}}:meta"
    hello, stored = await on_client(
        "execute_many", [Command(("HELLO", 2)), Command(("HGET", meta, "schema"))]
    )
    _judge(hello, at.name)
    if stored is None and not create:
        raise Misconfigured(
            f"{at.name} has no ledger under the prefix {at.prefix!r}: nothing was ever claimed in it"
        )
    if stored is None:
        await on_client("execute_many", [Command(("HSETNX", meta, "schema", LAYOUT))])
    elif int(stored) > LAYOUT:
        raise Misconfigured(
            f"{at.name} was written by a newer Onefold (layout {int(stored)}, this one knows {LAYOUT}): "
            "upgrade with `pip install -U onefold`"
        )


def _judge(hello: Sequence[Any], name: str) -> None:
    told = dict(zip(hello[::2], hello[1::2], strict=False))
    version = told[b"version"].decode()
    if int(version.partition(".")[0]) < OLDEST:
        raise Misconfigured(f"{name} is version {version}: Onefold needs Redis 6 or later, or Valkey")
    if told[b"mode"] == b"cluster":
        raise Misconfigured(f"{name} {CLUSTER}")
    if told[b"mode"] == b"sentinel":
        raise Misconfigured(f"{name} is a Sentinel, which holds no data: name the server it watches")
    if told[b"role"] != b"master":
        raise Unreachable(f"{name} is a replica, and claims are made at its primary only; nothing was asked")
