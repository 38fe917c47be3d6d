"""A stage for sinks: claims without a ledger, and pipelines of scripted records into a sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import anyio

from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.worker import Pipeline, Worker
from tests.fast.worker.stage import QUICK, Feed
from tests.waiting import PATIENCE, until

SCOPE = "stage"
NOBODY = "127.0.0.1:9"
"""An address at which no test listens."""
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


def worker(shown: Sequence[Record] | Feed, sink: Any, store: Any, grace: float = 30, **more: Any) -> Worker:
    feed = shown if isinstance(shown, Feed) else Feed(shown, finite=False)
    settings = {"sources": {"feed": feed}, "key": lambda r: r.id, "sink": sink, "terms": QUICK, **more}
    return Worker([Pipeline(SCOPE, **settings)], store=store, grace=grace)


def run_until(one: Worker, condition: Callable[[], bool], seconds: float = PATIENCE) -> int:
    """Run a worker until a condition holds, then stop it. Locks and cables are waited for: give them time."""
    [code] = run_together([one], condition, seconds)
    return code


def run_together(
    workers: Sequence[Worker], condition: Callable[[], bool], seconds: float = PATIENCE
) -> list[int]:
    """Run workers on one loop until a condition holds, then stop them; return how they ended."""

    async def all_of_them() -> list[int]:
        codes: list[int] = []

        async def work(one: Worker) -> None:
            codes.append(await one.arun())

        async with anyio.create_task_group() as group:
            for one in workers:
                group.start_soon(work, one)
            await until(condition, seconds)
            for one in workers:
                one.stop()
        return codes

    return anyio.run(all_of_them)


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
    "NOBODY",
    "PATIENT",
    "QUICK",
    "Feed",
    "Won",
    "entry",
    "put_one",
    "records",
    "run_together",
    "run_until",
    "settled",
    "states",
    "worker",
]
