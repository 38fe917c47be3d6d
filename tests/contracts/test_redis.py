"""Redis keeps the contract of stores, on a real server, in both colours and by two clocks."""

from itertools import count
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from tests.stores.redis.hands import timed, timed_awaited

pytestmark = pytest.mark.store("redis")

HISTORIES = count()


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


def test_redis_replies_as_memory_does(redis_url: str):
    compare(lambda folder, clock: timed(f"{redis_url}?prefix=history-{next(HISTORIES)}", clock))


def test_redis_replies_as_memory_does_awaited(redis_url: str):
    compare(lambda folder, clock: timed_awaited(f"{redis_url}?prefix=history-{next(HISTORIES)}", clock))
