"""A stage for sinks: claims without a ledger, and pipelines of scripted records into a sink."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import anyio

from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.worker import Pipeline, Worker
from tests.waiting import PATIENCE, until
from tests.worker.stage import QUICK, Feed

SCOPE = "stage"
PATIENT = Terms(lease=60, backoff=(0.01, 0.05), attempts=50)


class Won(NamedTuple):
    """A claim as a sink sees it."""

    key: Key
    token: str = "t1"
    fence: int = 1
    lost: bool = False
    name: str = ""
    request: Any = None
    attempt: int = 1


def records(count: int, **body: Any) -> list[Record]:
    return [Record(f"r{n}", {"n": n, **body}, n) for n in range(count)]


def put_one(sink: Any, record: Record, name: str = "") -> Any:
    """Let a sink act on one record as a delivery would: prepare, put, close."""

    async def main() -> Any:
        claim = Won(Key(SCOPE, record.id), name=name)
        try:
            if getattr(sink, "prepare", None):
                claim = claim._replace(request=await sink.prepare(claim, record))
            [answer] = await sink.put([(claim, record)])
        except Exception as error:
            return error
        finally:
            if hasattr(sink, "aclose"):
                await sink.aclose()
        return answer

    return anyio.run(main)


@contextmanager
def nobody() -> Iterator[str]:
    """Give a host and port at which nobody listens; it is kept, or another test might listen there."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


def worker(shown: Sequence[Record], sink: Any, store: Any, grace: float = 30, **more: Any) -> Worker:
    feed = Feed(shown, finite=False)
    settings = {"sources": {"feed": feed}, "key": lambda r: r.id, "sink": sink, "terms": QUICK, **more}
    return Worker([Pipeline(SCOPE, **settings)], store=store, grace=grace)


def run_until(one: Worker, condition: Callable[[], bool], seconds: float = PATIENCE) -> int:
    """Run a worker until a condition holds, then stop it. Locks and cables are waited for: give them time."""

    async def both() -> int:
        codes: list[int] = []

        async def work() -> None:
            codes.append(await one.arun())

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await until(condition, seconds)
            one.stop()
        return codes[0]

    return anyio.run(both)


def entry(store: Any, *parts: str) -> Any:
    [seen] = store.get([Key(SCOPE, *parts)])
    return seen.entry


def states(store: Any, count: int) -> dict[str, int]:
    """Count how records stand, by state, with why."""
    found = [seen.entry for seen in store.get([Key(SCOPE, f"r{n}") for n in range(count)])]
    return dict(Counter("absent" if one is None else one.why or one.state for one in found))


def settled(store: Any, count: int) -> Callable[[], bool]:
    """Say, when asked, whether every record is done or parked."""

    def condition() -> bool:
        return not states(store, count).keys() & {"absent", "free", "held"}

    return condition


__all__ = [
    "PATIENT",
    "QUICK",
    "Won",
    "entry",
    "nobody",
    "put_one",
    "records",
    "run_until",
    "settled",
    "states",
    "worker",
]
