"""Dramatiq as an alternative: a Redis broker and a lock for each record.

The same module is what its worker processes load: `dramatiq` with a process for each processor and eight
threads in each, Dramatiq's defaults. There is no result backend. Publishing is part of the round.
"""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.measure import Contestant
from benchmarks.worker import locked
from benchmarks.worker.proof import Site

QUEUE = "records"


def _connect(url: str, prefix: str) -> RedisBroker:
    broker = RedisBroker(url=url, namespace=prefix.rstrip(":"))
    dramatiq.set_broker(broker)
    return broker


def _handle(id: str) -> None:
    locked.lock().act(id)


if locked.URL in os.environ:
    _connect(os.environ[locked.URL], os.environ[locked.PREFIX])
    dramatiq.actor(_handle, actor_name="handle", queue_name=QUEUE)


def contestant(name: str, site: Site) -> Contestant:
    """Publish each record as a message."""
    lent = site.stack.enter_context(locked.place(site))
    broker = _connect(lent.url, lent.prefix)
    site.stack.callback(broker.close)
    handle = dramatiq.actor(_handle, actor_name="handle", queue_name=QUEUE)
    worker = [sys.executable, "-m", "dramatiq", __name__, "--skip-logging"]

    def is_empty() -> bool:
        # A message stays in this hash until it is acknowledged.
        return lent.client.hlen(f"{lent.prefix}{QUEUE}.msgs") == 0

    return locked.contestant(site, locked.Queue(name, handle.send, is_empty, worker), lent)
