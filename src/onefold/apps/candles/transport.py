"""Between the downloader and the store of bars: messages with keys, a stream that carries them, a bridge.

Two ports. A `Transport` takes messages on; that it took them does not say that anybody stored them: only a
`BarSink` can say that. Embedded, both stand in one process; NATS, Kafka and ClickHouse are planned.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from onefold.core.coverage import Span
from onefold.sinks.bars import BarRow, Kept

log = logging.getLogger("onefold.candles")

BATCH = 500


class Message(NamedTuple):
    """One bar on its way."""

    subject: str
    """Where it is published: bars.EURUSD.1m."""
    key: tuple[str, str, int]
    """What makes two messages the same bar: symbol, timeframe, start."""
    body: dict[str, Any]


Receives = Callable[[Sequence[Message]], Awaitable[None]]


class Transport(Protocol):
    """Carries messages. It may repeat and reorder them; the sink's versions make that harmless."""

    async def publish(self, messages: Sequence[Message]) -> None:
        """Take messages on; raise if that is not certain."""

    def subscribe(self, receive: Receives) -> None:
        """Hand messages to a bridge from now on, where it stands in this process."""


class BarSink(Protocol):
    """Keeps bars: of one key the best version, never the one that came last."""

    async def keep(self, rows: Sequence[BarRow]) -> Kept:
        """Store rows; return when they are stored, and tell what they met."""

    async def stored(self, symbol: str, timeframe: str, span: Span) -> Mapping[int, int]:
        """Say which bars of a span are stored: their starts in seconds, each with its conflicts."""

    async def aclose(self) -> None: ...


class Embedded:
    """A stream inside of the process: what is published is handed on at once, and the publisher waits."""

    def __init__(self) -> None:
        self._bridges: list[Receives] = []

    async def publish(self, messages: Sequence[Message]) -> None:
        for at in range(0, len(messages), BATCH):
            for receive in self._bridges:
                await receive(messages[at : at + BATCH])

    def subscribe(self, receive: Receives) -> None:
        self._bridges.append(receive)


class Bridge:
    """Stores what a transport carries, and counts what it met."""

    def __init__(self, sink: BarSink) -> None:
        self._sink = sink
        self.met: Counter[str] = Counter()

    async def receive(self, messages: Sequence[Message]) -> None:
        """Store one batch."""
        kept = await self._sink.keep([BarRow(**message.body) for message in messages])
        self.met.update(kept._asdict())
        if kept.conflicts:
            log.warning(
                "%s: %d bars were there with other values; the better version stands",
                messages[0].subject,
                kept.conflicts,
            )


def message(row: BarRow) -> Message:
    """Write a bar as a message."""
    subject = f"bars.{row.symbol.replace('/', '')}.{row.timeframe}"
    return Message(subject, (row.symbol, row.timeframe, row.timestamp_ms // 1000), row._asdict())
