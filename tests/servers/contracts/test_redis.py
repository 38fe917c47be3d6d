"""Redis keeps the contract of stores, on a real server, in both colours, by a clock that tests set."""

from itertools import count
from pathlib import Path

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from tests.servers.stores.redis.hands import timed, timed_awaited

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


@pytest.mark.slow  # every day by the server's own clock, with the others
class TestRedisAwaited(OnRedis):
    name = "redis"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return timed_awaited(self.url, clock)

    reopen = open


def test_redis_replies_as_memory_does(redis_url: str):
    compare(lambda folder, clock: timed(f"{redis_url}?prefix=history-{next(HISTORIES)}", clock))


@pytest.mark.slow
def test_redis_replies_as_memory_does_awaited(redis_url: str):
    compare(lambda folder, clock: timed_awaited(f"{redis_url}?prefix=history-{next(HISTORIES)}", clock))
