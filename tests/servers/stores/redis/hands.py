"""Redis stores that go by the clock of a test.

The server's clock cannot be set, but the scripts read it in one place: with a key read there instead, the
store's own scripts and connections do all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from onefold.stores.lua import Script, script, scripts
from onefold.stores.redis.client import AsyncClient, Client
from onefold.stores.redis.plan import Command, RedisPlan
from onefold.stores.shells import Awaited, Blocking
from onefold.testing.clock import FakeClock

TIME = "redis.call('TIME')"
HANDS = "{redis.call('GET', KEYS[1] .. ':hands'), '0'}"


@cache
def by_hand() -> Mapping[str, Script]:
    """Give the store's own scripts, reading the clock of a test."""
    assert all(kept.text.count(TIME) == 1 for kept in scripts("redis").values())
    return {name: script(kept.text.replace(TIME, HANDS)) for name, kept in scripts("redis").items()}


def set_hands(plan: RedisPlan, clock: FakeClock) -> Command:
    return Command(("SET", f"{plan.ledger}:hands", repr(clock())))


class TimedClient(Client):
    """A connection that sets the second clock of the server before every call."""

    clock: FakeClock
    plan: RedisPlan

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        return super().execute_many([set_hands(self.plan, self.clock), *commands])[1:]


class TimedAsyncClient(AsyncClient):
    """The same, awaited."""

    clock: FakeClock
    plan: RedisPlan

    async def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        return (await super().execute_many([set_hands(self.plan, self.clock), *commands]))[1:]


def timed(url: str, clock: FakeClock, known: Mapping[str, Script] | None = None) -> Blocking:
    """Open a store by the clock of a test, with its own scripts or with others."""
    client = TimedClient(url)
    client.clock, client.plan = clock, RedisPlan(client.address.prefix, known or by_hand())
    return Blocking(client.plan, client)


def timed_awaited(url: str, clock: FakeClock) -> Awaited:
    client = TimedAsyncClient(url)
    client.clock, client.plan = clock, RedisPlan(client.address.prefix, by_hand())
    return Awaited(client.plan, client)
