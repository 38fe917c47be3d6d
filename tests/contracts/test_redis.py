"""Redis keeps the contract of stores, on a real server, in both colours and by two clocks.

The server's clock cannot be set, but the scripts read it in one place: with a key read there instead, they go
by the clock of the test, so that no time need pass and the model can be compared.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.stores.lua import Script, script, scripts
from onefold.stores.shells import Awaited, Blocking
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare

redis = pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect  # noqa: E402
from onefold.stores.redis.client import AsyncClient, Client  # noqa: E402
from onefold.stores.redis.plan import Command, RedisPlan  # noqa: E402

pytestmark = pytest.mark.store("redis")

TIME = "redis.call('TIME')"
HANDS = "{redis.call('GET', KEYS[1] .. ':hands'), '0'}"

NUMBERS = count()


@cache
def by_hand() -> Mapping[str, Script]:
    """Give the store's own scripts, reading the clock of a test."""
    assert all(kept.text.count(TIME) == 1 for kept in scripts("redis").values())
    return {name: script(kept.text.replace(TIME, HANDS)) for name, kept in scripts("redis").items()}


def set_hands(plan: RedisPlan, clock: FakeClock) -> Command:
    return Command(("SET", f"{plan.ledger}:hands", repr(clock())))


class TimedClient(Client):
    """A connection that sets the server's second clock before every call."""

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


def timed(url: str, clock: FakeClock) -> Blocking:
    client = TimedClient(url)
    client.clock, client.plan = clock, RedisPlan(client.address.prefix, by_hand())
    return Blocking(client.plan, client)


def timed_awaited(url: str, clock: FakeClock) -> Awaited:
    client = TimedAsyncClient(url)
    client.clock, client.plan = clock, RedisPlan(client.address.prefix, by_hand())
    return Awaited(client.plan, client)


# ----- the contract


class OnRedis(StoreContract):
    url: str

    @pytest.fixture(autouse=True)
    def somewhere(self, redis_url: str) -> None:
        self.url = redis_url


class TestRedis(OnRedis):
    name = "redis"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return timed(self.url, clock)

    reopen = open


class TestRedisAwaited(OnRedis):
    name = "redis"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return timed_awaited(self.url, clock)

    reopen = open


class TestRedisByItsOwnClock(OnRedis):
    name = "redis"
    own_clock = True

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.url)

    reopen = open


@pytest.mark.slow
class TestRedisByItsOwnClockAwaited(OnRedis):
    name = "redis"
    own_clock = True

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.url)

    reopen = open


# ----- the model


def test_redis_replies_as_memory_does(redis_url: str):
    compare(lambda folder, clock: timed(f"{redis_url}?prefix=history-{next(NUMBERS)}", clock))


def test_redis_replies_as_memory_does_awaited(redis_url: str):
    compare(lambda folder, clock: timed_awaited(f"{redis_url}?prefix=history-{next(NUMBERS)}", clock))
