"""Celery as an alternative: a Redis broker, late acknowledgement and a lock for each record.

The same module is the application that its worker processes load: `celery worker` with the prefork pool and a
process for each processor, Celery's defaults. There is no result backend. Publishing is part of the round.
"""

from __future__ import annotations

import os
import sys

from celery import Celery

from benchmarks.measure import Contestant
from benchmarks.worker import locked
from benchmarks.worker.proof import Site

app = Celery("bench")


def _configure(url: str, prefix: str) -> None:
    app.conf.update(
        broker_url=url,
        broker_transport_options={"global_keyprefix": prefix},
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
    )


if locked.URL in os.environ:
    _configure(os.environ[locked.URL], os.environ[locked.PREFIX])


@app.task(name="handle")
def handle(id: str) -> None:
    """Act on a record once for as long as its lock lives."""
    locked.lock().act(id)


def contestant(name: str, site: Site) -> Contestant:
    """Publish each record as a task with the record's id."""
    lent = site.stack.enter_context(locked.place(site))
    _configure(lent.url, lent.prefix)
    site.stack.callback(app.close)
    # No mingle and no gossip: there is one worker, and it starts sooner without looking for others.
    options = ["--loglevel", "ERROR", "--without-mingle", "--without-gossip"]
    worker = [sys.executable, "-m", "celery", "--app", __name__, "worker", *options]

    def is_empty() -> bool:
        waiting = lent.client.llen(f"{lent.prefix}celery")
        return waiting == 0 and lent.client.hlen(f"{lent.prefix}unacked") == 0

    queue = locked.Queue(name, lambda id: handle.apply_async((id,), task_id=id), is_empty, worker)
    return locked.contestant(site, queue, lent)
