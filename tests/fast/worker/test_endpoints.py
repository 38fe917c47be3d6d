"""A pool picks by what is known, follows what operators put, and leaves an endpoint that dies."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.endpoints import Demands, Facts, Patience
from onefold.core.errors import Misconfigured, Unreachable
from onefold.core.record import Page, Record
from onefold.drive import AsyncPorts, Inline, arun
from onefold.sources.websocket import Websocket
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worker.endpoints import NoEndpoint, Pool, check_host, listed, pools, put
from onefold.worlds.stream import Events, Stream
from tests.fast.worker.stage import QUICK, FarSide, pipeline, run_until, store
from tests.waiting import PATIENCE

A, B = "ws://127.0.0.1:1/a", "ws://127.0.0.1:2/b"
ONCE = Patience(1, 1)


def told(pool: Pool, awaited: Any, *steps: Any) -> list[Any]:
    """Ask a pool these things, in order, as a worker does."""

    async def main() -> list[Any]:
        ports = AsyncPorts(awaited)
        with anyio.CancelScope() as probing:
            probing.cancel()
            await pool.attend(ports)
        return [await step(ports) for step in steps]

    return anyio.run(main)


def test_an_endpoint_that_fails_gives_way_and_comes_back_when_it_does_well():
    _, awaited = store()
    pool = Pool("nodes", [{"url": A, "priority": 1}, {"url": B, "priority": 2}], private=True, patience=ONCE)

    picked = told(
        pool, awaited,
        lambda _: pool.pick(),
        lambda _: pool.tell(A, "it was cut"),
        lambda _: pool.pick(),
        lambda _: pool.tell(B, None),
        lambda _: pool.tell(A, None),
        lambda _: pool.pick(),
    )  # fmt: skip

    assert picked == [A, None, B, None, None, A]


def test_if_none_is_healthy_the_least_bad_is_tried_and_said_loudly(caplog):
    _, awaited = store()
    pool = Pool("nodes", [A, B], private=True, patience=ONCE)
    with caplog.at_level(logging.INFO, "onefold.worker"):
        [_, _, _, _, picked] = told(
            pool, awaited,
            lambda _: pool.pick(),
            lambda _: pool.tell(A, "it was cut"),
            lambda _: pool.pick(),
            lambda _: pool.tell(B, "it was cut later"),
            lambda _: pool.pick(),
        )  # fmt: skip

    assert picked == A
    [loud] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "no endpoint of nodes is healthy" in loud.getMessage()


def test_what_an_operator_puts_holds_from_the_next_pick_on_and_keeps_what_is_known():
    _, awaited = store()
    pool = Pool("nodes", [A], private=True, patience=ONCE)

    def operator(rows: Any, number: int) -> Any:
        return lambda ports: arun(put("nodes", rows, "ann", token_hex(8), number), ports)

    answers = told(
        pool, awaited,
        lambda _: pool.pick(),
        operator([{"url": B}, {"url": A, "priority": 5}], 0),
        lambda _: pool.pick(),
        operator([{"url": B, "enabled": False}, {"url": A}], 1),
        lambda _: pool.pick(),
        lambda _: pool.tell(A, "it was cut"),
        lambda ports: arun(listed(), ports),
    )  # fmt: skip

    assert [answers[at] for at in (0, 2, 4)] == [A, B, A]
    [shown] = answers[-1]
    assert shown["pool"] == "nodes"
    rows = {row["shown"]: (row["enabled"], row["health"], row["reason"]) for row in shown["endpoints"]}
    assert rows == {A: (True, "unhealthy", "it was cut"), B: (False, "unknown", "")}


def test_what_cannot_be_used_is_refused_when_it_is_put_and_passed_over_if_it_stands(caplog):
    _, awaited = store()
    pool = Pool("nodes", [A], private=True)

    async def stands(ports: AsyncPorts) -> None:
        await arun(put("nodes", ["http://127.0.0.1/"], "ann", token_hex(8), 0), ports)

    [_, picked] = told(pool, awaited, stands, lambda _: pool.pick())
    assert picked == A
    assert "endpoints.nodes is of no use" in caplog.text
    with pytest.raises(Misconfigured, match="are a list"):
        told(pool, awaited, lambda ports: arun(put("nodes", [], "ann", token_hex(8), 1), ports))


def test_an_address_in_the_environment_is_stored_by_its_name_alone(monkeypatch):
    memory, awaited = store()
    monkeypatch.setenv("NODE_URL", "ws://ann:hunter2@127.0.0.1:9/v2")
    pool = Pool("nodes", [{"url": "env:NODE_URL"}], private=True)

    [picked, _] = told(pool, awaited, lambda _: pool.pick(), lambda _: pool.tell(str(picked_url), "cut"))

    assert picked == picked_url
    [seen] = memory.get([pool.key])
    assert seen.entry is not None
    assert "env:NODE_URL" in (seen.entry.body or "")
    assert "hunter2" not in (seen.entry.body or "")


picked_url = "ws://ann:hunter2@127.0.0.1:9/v2"


def test_an_address_that_leads_into_a_private_network_is_never_used():
    _, awaited = store()
    with pytest.raises(Misconfigured, match="private network"):
        Pool("nodes", ["wss://10.1.2.3/feed"])
    pool = Pool("nodes", ["env:NO_SUCH_VARIABLE", {"url": "wss://example.org", "enabled": False}])
    with pytest.raises(NoEndpoint, match=r"NO_SUCH_VARIABLE is not set.*settings put endpoints\.nodes"):
        told(pool, awaited, lambda _: pool.pick())


def test_a_name_that_leads_into_a_private_network_is_refused_and_one_that_leads_nowhere_is_not():
    with pytest.raises(Misconfigured, match="by its name"):
        anyio.run(check_host, "wss://localhost/feed")
    anyio.run(check_host, "wss://no-such-host.invalid/feed")


def test_a_pool_without_a_worker_says_so():
    with pytest.raises(Unreachable, match="while its worker runs"):
        anyio.run(Pool("nodes", [A], private=True).pick)


def test_a_pool_whose_store_is_unreachable_goes_on_and_probes_later(caplog):
    class Away(Inline):
        away = 2

        async def get(self, keys: Any) -> Any:
            if self.away:
                self.away -= 1
                raise Unreachable("the store is away")
            return await super().get(keys)

    async def main() -> None:
        probed = anyio.Event()

        async def probe(url: str) -> Facts:
            probed.set()
            return Facts(137, 100)

        pool = Pool("nodes", [A], private=True, probe=probe, every=0.01)
        async with anyio.create_task_group() as group:
            group.start_soon(pool.attend, AsyncPorts(Away(MemoryStore())))
            with anyio.fail_after(PATIENCE):
                await probed.wait()
            group.cancel_scope.cancel()

    anyio.run(main)

    said = [one for one in caplog.messages if "could not be checked: the store is away" in one]
    assert len(said) == 2


@pytest.mark.parametrize(
    ("found", "health", "reason"),
    [
        (Facts(137, 100), "healthy", ""),
        (Facts(1, 100), "unhealthy", "it is 1, and 137 is wanted"),
        (Facts(137, 50), "unhealthy", "behind"),
        (OSError("refused by wss://ann:hunter2@x"), "unhealthy", "OSError"),
        (None, "unhealthy", "no answer within 0.05 s"),
    ],
)
def test_a_probe_decides_by_what_it_finds(found, health, reason):
    _, awaited = store()

    async def probe(url: str) -> Facts:
        if url == B:
            return Facts(137, 100)
        if found is None:
            await anyio.sleep_forever()
        if isinstance(found, Exception):
            raise found
        return Facts(*found)

    demands = Demands(version=137, behind=10)
    pool = Pool("nodes", [A, B], private=True, patience=ONCE, probe=probe, demands=demands, timeout=0.05)
    [_, known] = told(pool, awaited, lambda _: pool.check(), lambda _: pool.endpoints())

    assert known[0].health == health
    assert reason in known[0].reason
    assert "hunter2" not in known[0].reason
    assert known[1].health == "healthy"


def parse(message: str | bytes) -> Record | None:
    event = json.loads(message)
    return None if "subscribed" in event else Record(event["id"], event, event["at"])


def test_a_stream_whose_endpoint_dies_goes_on_at_the_other_and_nothing_is_lost():
    memory, awaited = store()
    events, far = Events(), FarSide()

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        yield Page([Record(event["id"], event, event["at"]) for event in events.since(int(cursor.at or 0))])

    with Stream(events) as first, Stream(events) as second:
        addresses = [{"url": first.url, "priority": 1}, {"url": second.url, "priority": 2}]
        pool = Pool("streams", addresses, private=True, patience=Patience(2, 1))
        source = Websocket(
            pool, parse, subscribe=["please"], backfill=backfill, lag=5, backoff=(0.02, 0.1), stable=30
        )
        plan = pipeline(None, far, sources={"stream": source}, terms=QUICK)
        assert pools([plan, plan]) == [pool]
        worker = Worker([plan], store=awaited)

        def through() -> bool:
            if len(far.happened) < 10:
                # No further ahead: there must be as many left for the other one.
                if first.connections and len(events.since(0)) < 10:
                    events.happen()
            elif first.running:
                first.die()
            elif second.connections and len(events.since(0)) < 20:
                events.happen()
            return len(far.happened) == 20 == len(events.since(0))

        run_until(worker, through)

    assert Counter(far.happened.values()) == {1: 20}
    [seen] = memory.get([pool.key])
    assert seen.entry is not None
    rows = json.loads(seen.entry.body or "")["endpoints"]
    assert [row["health"] for row in rows] == ["unhealthy", "unknown"]


def test_a_source_may_use_several_pools_and_the_worker_attends_each():
    one, other = Pool("nodes", [A], private=True), Pool("streams", [B], private=True)

    class Both:
        endpoints = (one, other)
        reach, repeats, lag = None, True, 0.0

    plan = pipeline(Both(), FarSide())

    assert pools([plan, plan]) == [one, other]
