"""Records from a websocket: connect, subscribe, fetch what was missed, then listen until the line ends.

A stream carries no history, so nothing of it is handed on before the back-fill is through: live messages
wait in a bounded buffer meanwhile. One `read` is the life of one connection, and every life ends by an error
that says why; the reader pauses and reads again. What was buffered is handed on before that.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import anyio

from onefold.core.backoff import Backoff
from onefold.core.cursor import Cursor, start
from onefold.core.endpoints import Picks, check_url
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.paging import highest
from onefold.core.record import Broken, Fate, Page, Record
from onefold.core.rows import unsound
from onefold.core.terms import Duration, Seconds, forever_or_seconds, seconds
from onefold.core.wire import quoted
from onefold.runtime import current
from onefold.runtime.websocket import check_installed
from onefold.sources.websocket.live import Disconnected, Live, Message, Watch

__all__ = ["Disconnected", "Websocket"]

PAGE = 200
"""How many live messages are handed on together."""

UNCONFIRMED = 2.0
"""Seconds in which a subscription that nobody confirms is taken to be made."""

RAW = 2_000
"""How much of a message that cannot be read is kept."""

Parsed = Record | Sequence[Record] | None
Sent = Iterable[Any]


class Websocket:
    """Listens to a websocket, and reads by `backfill` what it missed.

    `parse` gives the records of a message: one, several, or None for what is none; if it raises, the message
    is set aside, and if it raises `Disconnected`, the connection is given up (a subscription was refused).
    `confirms` says whether a message confirms a subscription: history is read only when as many came as
    were asked for, because what happens before that is on neither.
    `backfill(cursor)` yields pages from the cursor on, inclusive, oldest first, up to the present (a page
    with `more` as its last: it is asked for the rest). Without it, what is sent while the line is down is
    never seen.

    A line that is not open, and confirmed, after `opening`, that answers no ping for `ping`, or that says
    nothing for `silence`, is given up. `keepalive` is a message to send every so often. `again` is when to
    read history once more after connecting, for a far side whose history is behind its stream; by itself
    after `lag`, if the order is of times. `sweep` is how often to read it again while the line lasts, from
    what was reached minus `lag` on, for a far side whose stream loses single messages. `buffer` and `largest`
    bound how many messages wait and how large one may be, `patience` how long a back-fill may show nothing.
    Pauses between connections double from the first to the longest of `backoff`, until one was `stable`.
    """

    def __init__(
        self,
        url: str | Picks,
        parse: Callable[[Message], Parsed],
        *,
        subscribe: Sent | Callable[[], Sent | Awaitable[Sent]] = (),
        confirms: Callable[[Message], bool] | None = None,
        backfill: Callable[[Cursor], AsyncIterable[Page | Record]] | None = None,
        again: Duration | None = None,
        sweep: Duration | None = None,
        lag: Duration | None = None,
        reach: Duration = "forever",
        timed: bool = False,
        opening: Duration = "15s",
        ping: Duration = "20s",
        silence: Duration = "forever",
        keepalive: tuple[Duration, Message] | None = None,
        buffer: int = 10_000,
        largest: int = 1 << 20,
        patience: Duration = "5m",
        stable: Duration = "60s",
        backoff: tuple[Duration, Duration] = (0.5, 60),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(url, str):
            check_url(url, ("ws", "wss"), private=True)
        check_installed()
        if type(buffer) is not int or buffer < 1 or type(largest) is not int or largest < 1:
            raise Misconfigured(f"buffer is {buffer!r} and largest is {largest!r}: write 1 or more")
        self.endpoints: Picks | None = None if isinstance(url, str) else url
        self.timed = timed
        self.lag: Seconds = 0.0 if lag is None else seconds(lag, "lag")
        self.reach: Seconds | None = forever_or_seconds(reach, "reach")
        self.repeats = backfill is not None
        first, longest = (seconds(one, "backoff") for one in backoff)
        self.backoff = Backoff(first, longest, seconds(stable, "stable"))
        self._url = url
        self._parse = parse
        self._subscribe = subscribe
        self._confirms = confirms
        self._backfill = backfill
        self._again = self._settles(again)
        self._sweep = None if sweep is None else seconds(sweep, "sweep")
        self._patience = seconds(patience, "patience")
        self._headers = dict(headers or {})
        self._watch = Watch(
            opening=seconds(opening, "opening"),
            ping=seconds(ping, "ping"),
            silence=forever_or_seconds(silence, "silence"),
            keepalive=keepalive and (seconds(keepalive[0], "keepalive"), keepalive[1]),
            buffer=buffer,
            largest=largest,
            # What cannot be had again is not dropped: the far side is made to wait instead.
            waits=backfill is None,
        )

    def _settles(self, again: Duration | None) -> Seconds | None:
        """Say how long after connecting history is read once more.

        By itself: as late as records may come, and as a subscription may take that nobody confirms.
        """
        if again is not None:
            return seconds(again, "again")
        late = self.lag if self.timed else 0.0
        return max(late, 0.0 if self._confirms else UNCONFIRMED) or None

    async def tell(self, fates: Sequence[tuple[Record, Fate]]) -> None:
        """A stream hears nothing."""

    async def read(self, cursor: Cursor) -> AsyncGenerator[Page, None]:
        """Live through one connection."""
        url = self._url if isinstance(self._url, str) else await self._url.pick()
        began = current().monotonic()
        trouble: str | None = None
        live: Live | None = None
        try:
            live = await self._connected(url)
            async with aclosing(self._pages(live, cursor)) as pages:
                async for page in pages:
                    yield page
        except Exception as error:
            trouble = str(error)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                if live is not None:
                    await live.close()
            await self._report(url, trouble, current().monotonic() - began)

    async def _connected(self, url: str) -> Live:
        live = await Live.connect(url, self._headers, self._watch, self._confirms)
        try:
            given = self._subscribe() if callable(self._subscribe) else self._subscribe
            messages = list(await given if inspect.isawaitable(given) else given)
            for message in messages:
                await live.send(message if isinstance(message, str | bytes) else json.dumps(message))
            if self._confirms:
                await live.confirmed(len(messages))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await live.close()
            raise
        return live

    async def _report(self, url: str, trouble: str | None, lasted: Seconds) -> None:
        """Tell the pool how an address did; only one that lasted did well."""
        if self.endpoints is None or (trouble is None and lasted < self.backoff.stable):
            return
        # A pool that cannot be told now hears of the next failure; this one must not hide why the line ended.
        with anyio.move_on_after(2, shield=True), suppress(OnefoldError):
            await self.endpoints.tell(url, None if lasted >= self.backoff.stable else trouble)

    # ----- what is handed on

    async def _pages(self, live: Live, cursor: Cursor) -> AsyncGenerator[Page, None]:
        since = Cursor(start(cursor, self.lag))
        reached = cursor.at
        async with aclosing(self._missed(since)) as missed:
            async for page in missed:
                reached = highest(reached, *(one.at for one in page.records))
                yield page
        yield Page([])
        again = None if self._again is None else live.since + self._again
        sweep = None if self._sweep is None else current().monotonic() + self._sweep
        while True:
            due = _earlier(again, sweep) if self._backfill else None
            messages = await live.take(PAGE, due)
            if messages:
                yield self._page(messages)
            if due is None or current().monotonic() < due:
                continue
            # History may be behind the stream, and what happened just before the subscription shows up late.
            # And a stream may lose a message.
            if due != again:
                since = Cursor(start(Cursor(reached), self.lag))
            async with aclosing(self._missed(since)) as missed:
                async for page in missed:
                    reached = highest(reached, *(one.at for one in page.records))
                    yield page
            yield Page([])
            again = None if due == again else again
            sweep = None if self._sweep is None else current().monotonic() + self._sweep

    async def _missed(self, since: Cursor) -> AsyncGenerator[Page, None]:
        """Fetch what was missed; a back-fill that ends before the present is asked for the rest."""
        more = self._backfill is not None
        while more:
            more, reached = False, since.at
            async with aclosing(self._history(since)) as history:
                async for page in history:
                    more = page.more
                    reached = max((one.at for one in page.records), default=reached)
                    yield page._replace(more=True)
            if more and reached == since.at:
                raise Disconnected(f"the back-fill leads no further than {reached}")
            since = Cursor(reached)

    async def _history(self, since: Cursor) -> AsyncGenerator[Page, None]:
        """Read history once; one that fails or hangs ends the connection with it."""
        assert self._backfill is not None, "the caller looked"
        shown = aiter(self._backfill(since))
        try:
            while True:
                try:
                    async with asyncio.timeout(self._patience) as limit:
                        one = await anext(shown)
                except StopAsyncIteration:
                    return
                except Exception as error:
                    said = f"nothing came for {self._patience:g} s" if limit.expired() else f"{error}"
                    raise Disconnected(f"the back-fill failed: {type(error).__name__}: {said}") from error
                yield _sound(one if isinstance(one, Page) else Page([one]))
        finally:
            close = getattr(shown, "aclose", None)
            if close:
                with suppress(Exception):
                    await close()

    def _page(self, messages: Sequence[Message]) -> Page:
        records: list[Record] = []
        broken: list[Broken] = []
        for message in messages:
            try:
                found = _sound(Page(_records(self._parse(message))))
                records += found.records
                broken += found.broken
            except Disconnected:
                raise
            except Exception as error:  # the message is the outside's, and parse the caller's
                broken.append(Broken(_text(message), f"{type(error).__name__}: {error}"))
        return Page(records, broken=broken)


def _records(parsed: Any) -> Sequence[Record]:
    if parsed is None:
        return []
    records = [parsed] if isinstance(parsed, Record) else list(parsed)
    for one in records:
        if not isinstance(one, Record):
            raise TypeError(f"parse gave {type(one).__name__}: give a Record, several, or None")
    return records


def _sound(page: Page) -> Page:
    """Set records apart that no store could keep, as those with NaN or half of a surrogate pair in them.

    A function that reads JSON by `json.loads` lets them pass.
    """
    wrong = [(one, unsound(one)) for one in page.records]
    if not any(reason for _, reason in wrong):
        return page
    apart = [Broken(quoted({"id": one.id, "body": one.body}), reason) for one, reason in wrong if reason]
    return page._replace(records=[one for one, reason in wrong if not reason], broken=[*page.broken, *apart])


def _earlier(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)


def _text(message: Message) -> str:
    text = message if isinstance(message, str) else message.decode("utf-8", "replace")
    return text[:RAW]
