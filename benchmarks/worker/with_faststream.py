"""FastStream on NATS JetStream as an alternative: publish each record, act in the handler, acknowledge.

Records are published with their id as `Nats-Msg-Id`, a page at a time, and come back through a durable pull
consumer with explicit acknowledgement. Publisher and subscriber share a process and an event loop, as source
and sink do in a worker; the server is a process of its own. Each round has a fresh stream, made before the
clock starts, and ends when the server has no message left to deliver or to have acknowledged.
"""

from __future__ import annotations

import asyncio
import time

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, PullSub
from nats.js.api import AckPolicy as Acknowledge
from nats.js.api import ConsumerConfig, StorageType

from benchmarks.measure import Contestant, Keys
from benchmarks.stores.player import Loop
from benchmarks.worker.nats_server import started
from benchmarks.worker.proof import DEADLINE, Site, Stuck, pages, proven
from benchmarks.worker.stages import PAGE

DURABLE = "worker"
PUBLISH_SECONDS = 30.0
"""For one acknowledgement of the server; FastStream's own half second is short for a page of syncs."""
WINDOW_SECONDS = 120.0
"""How long the server ignores a repeated `Nats-Msg-Id`: its default."""


def contestant(name: str, site: Site) -> Contestant:
    """Give each round a stream of its own on one server."""
    server = site.stack.enter_context(started(site.path("nats")))
    loop = Loop()
    site.stack.callback(loop.close)
    streams = Streams(name, server.url, loop)
    site.stack.callback(streams.stop)
    return Contestant(
        name, server.durability, streams.play, at_most=2 * site.sizes.batch, before=streams.start
    )


class Streams:
    """A broker, its stream and its subscriber, all made anew for each round."""

    def __init__(self, name: str, url: str, loop: Loop) -> None:
        self._name = name
        self._url = url
        self._loop = loop
        self._broker: NatsBroker | None = None
        self._acted: list[str] = []
        self._stream = ""

    def start(self) -> None:
        self.stop()
        self._loop.run(self._start(f"records-{time.time_ns()}"))

    def stop(self) -> None:
        if self._broker:
            self._loop.run(self._broker.stop())
            self._broker = None

    def play(self, keys: Keys) -> int:
        self._loop.run(self._play(keys))
        return proven(self._name, self._acted, keys)

    async def _start(self, stream: str) -> None:
        self._broker, self._stream, self._acted = NatsBroker(self._url, logger=None), stream, []

        @self._broker.subscriber(
            stream,
            stream=JStream(
                stream, subjects=[stream], storage=StorageType.FILE, duplicate_window=WINDOW_SECONDS
            ),
            durable=DURABLE,
            pull_sub=PullSub(batch_size=PAGE, timeout=1.0),
            config=ConsumerConfig(ack_policy=Acknowledge.EXPLICIT),
            ack_policy=AckPolicy.NACK_ON_ERROR,
        )
        async def effect(id: str) -> None:
            self._acted.append(id)

        await self._broker.start()

    async def _play(self, keys: Keys) -> None:
        for page in pages(keys):
            await asyncio.gather(*(self._publish(record["id"]) for record in page))
        await self._settled(time.monotonic() + DEADLINE)

    async def _publish(self, id: str) -> None:
        assert self._broker
        await self._broker.publish(
            id, self._stream, headers={"Nats-Msg-Id": id}, stream=self._stream, timeout=PUBLISH_SECONDS
        )

    async def _settled(self, deadline: float) -> None:
        """Wait until the server has delivered every message and received every acknowledgement."""
        assert self._broker
        server = self._broker.config.connection_state.stream
        while True:
            told = await server.consumer_info(self._stream, DURABLE)
            if told.num_pending == 0 and told.num_ack_pending == 0:
                return
            if time.monotonic() > deadline:
                left = f"{told.num_pending} undelivered, {told.num_ack_pending} unacknowledged messages"
                raise Stuck(f"{self._name} did not finish within {DEADLINE:g} s: {left}")
