"""What the task queues on Redis share: a lock around each effect, and worker processes that note effects.

The lock is the usual one: `SET NX` with an expiry, on the record's id, taken before the effect, kept after it
and removed if the effect raises. The effect appends the id of its record to a file, because workers are
other processes. This module knows neither Celery nor Dramatiq.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import redis

from benchmarks.measure import Contestant, Keys
from benchmarks.worker.processes import beside, last_words
from benchmarks.worker.proof import Site, pages, proven, wait_until

URL, PREFIX, EFFECTS = "ONEFOLD_BENCH_REDIS", "ONEFOLD_BENCH_PREFIX", "ONEFOLD_BENCH_EFFECTS"
"""The variables by which a worker process learns where its queue is and where to note effects."""

LOCK_SECONDS = 86_400
"""Longer than Celery keeps an unacknowledged task from other workers, which is an hour."""


# ----- in a worker process


class Lock:
    """A lock for each record around an effect that appends the record's id to a file."""

    def __init__(self, url: str, prefix: str, effects: Path) -> None:
        self._client = redis.Redis.from_url(url)
        self._prefix = prefix
        self._effects = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def act(self, id: str) -> None:
        """Act on a record unless its lock is taken."""
        lock = f"{self._prefix}lock:{id}"
        if not self._client.set(lock, "1", nx=True, ex=LOCK_SECONDS):
            return
        try:
            # One write to a file opened for appending: processes do not mix their lines.
            os.write(self._effects, f"{id}\n".encode())
        except BaseException:
            self._client.delete(lock)
            raise

    def close(self) -> None:
        self._client.close()
        os.close(self._effects)


@cache
def lock() -> Lock:
    """Return the lock of this worker process, made when its first task comes."""
    return Lock(os.environ[URL], os.environ[PREFIX], Path(os.environ[EFFECTS]))


# ----- in the benchmark


class Queue(NamedTuple):
    """How one framework is used: sends a record to its workers, and says whether all were acknowledged."""

    name: str
    send: Callable[[str], object]
    is_empty: Callable[[], bool]
    worker: Sequence[str]
    """The command of its worker process."""


class Place(NamedTuple):
    """Where a framework keeps its keys on the server."""

    url: str
    client: redis.Redis
    prefix: str

    def durability(self) -> str:
        told = self.client.config_get("append*")
        return f"AOF {told['appendonly']}, fsync {told['appendfsync']}"


@contextmanager
def place(site: Site) -> Iterator[Place]:
    """Lend a prefix of its own on the server, and remove its keys afterwards."""
    url = site.redis
    with redis.Redis.from_url(url, decode_responses=True) as client:
        lent = Place(url, client, f"bench-{token_hex(6)}:")
        try:
            yield lent
        finally:
            for key in client.scan_iter(f"{lent.prefix}*"):
                client.delete(key)


def contestant(site: Site, queue: Queue, lent: Place) -> Contestant:
    """Start the worker processes once, as in production; each round finds their queue empty."""
    log, effects = site.path("worker.log"), site.path("effects")
    env = os.environ | {URL: lent.url, PREFIX: lent.prefix, EFFECTS: str(effects)}
    site.stack.enter_context(beside(queue.worker, log, env))
    rounds = Rounds(queue, effects, log)
    half = site.sizes.batch // 2
    return Contestant(
        queue.name, lent.durability(), rounds.play, at_most=half, before=rounds.wake, in_process=False
    )


class Rounds:
    """Sends records to worker processes and reads from a file which of them were acted on."""

    def __init__(self, queue: Queue, effects: Path, log: Path) -> None:
        self._queue = queue
        self._effects = effects
        self._log = log

    def wake(self) -> None:
        """Let a worker handle a record outside of the timing: idle Dramatiq workers sleep up to a second."""
        self.play([f"wake-{token_hex(6)}"])

    def play(self, keys: Keys) -> int:
        self._effects.write_bytes(b"")  # truncated, not replaced: the workers keep it open
        for page in pages(keys):
            for record in page:
                self._queue.send(record["id"])
        wait_until(
            lambda: len(self._acted()) >= len(keys) and self._queue.is_empty(),
            self._queue.name,
            lambda: f"{len(self._acted())} of {len(keys)} effects; {last_words(self._log)}",
        )
        return proven(self._queue.name, self._acted(), keys)

    def _acted(self) -> list[str]:
        return self._effects.read_text().split("\n")[:-1]
