"""The pipeline of whales: where fills come from, what names one, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from onefold.apps._polymarket import DATA, GAMMA, Markets, counted, fill, fill_parts, former_parts
from onefold.apps.whales.beginning import FirstStart, beginning
from onefold.apps.whales.filters import Subscriber, fits, needs_market, wants
from onefold.apps.whales.words import alert
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.core.operate import look
from onefold.core.record import Record
from onefold.core.terms import Seconds, Terms, forever_or_seconds, seconds
from onefold.runtime import now
from onefold.sinks.chat import Chat
from onefold.sinks.pace import Rates
from onefold.sources.poll import Offset, Poll
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live, Setting

NAME = "whales"

LIVE = {"subscribers": list[Subscriber]}

DEEPEST = 10_000
"""The Data API answers 400 to a larger offset."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.whales]` may say."""

    chat_token: Secret
    subscribers: tuple[Subscriber, ...] = ()
    """Until `whales.subscribers` is put as a live setting."""
    every: str = "5s"
    minimum: float = 0.0
    """Fills below this many dollars are not even asked for."""
    since: str = "now"
    """Where a first start begins: now, so long ago (`6h`), at a time of ISO 8601, or forever for all."""
    max_age: str = "forever"
    """An older fill is not told."""
    page: int = 500
    lag: str = "1m"
    reach: str = "7d"
    """How far back the feed may show a fill; `keep` must not be shorter."""
    keep: str = "8d"
    data_url: str = DATA
    gamma_url: str = GAMMA
    chat_url: str = "https://api.telegram.org"
    chat_pace: Rates = Rates()
    """Seconds between two messages: to anybody, to one person, to one group."""

    def __post_init__(self) -> None:
        if not 2 <= self.page <= DEEPEST:
            raise ValueError(f"page is {self.page}: write 2 to {DEEPEST}")
        if self.minimum < 0:
            raise ValueError(f"minimum is {self.minimum}: write 0 or more")


def pipelines(settings: Settings, live: Live) -> Pipeline:
    """Say what is to be done."""
    if seconds(settings.keep, "keep") < seconds(settings.reach, "reach"):
        raise Misconfigured(
            f"apps.whales keeps {settings.keep}, but its feed reaches back {settings.reach}: raise keep"
        )
    subscribers: Setting[list[Subscriber]] = live.setting(
        "subscribers", LIVE["subscribers"], list(settings.subscribers)
    )
    return Pipeline(
        NAME,
        sources={"trades": _trades(settings, live)},
        key=Named(forever_or_seconds(settings.max_age, "max_age")),
        sink=Chat(settings.chat_token, alert, url=settings.chat_url, rates=settings.chat_pace, preview=False),
        each=_Audience(subscribers, Markets(settings.gamma_url), live),
        terms=Terms(lease="2m", keep=settings.keep),
        duplicate_alarm=0.5,
        lag_alarm="15m",
    )


class Named:
    """Names a fill; one that is older than `max_age` is passed over, and counted as filtered."""

    def __init__(self, max_age: Seconds | None, clock: Callable[[], float] = now) -> None:
        self._max_age = max_age
        self._clock = clock

    def __call__(self, record: Record) -> tuple[str, ...] | None:
        if self._max_age is not None and record.at < self._clock() - self._max_age:
            return None
        return fill_parts(record.body)


def _trades(settings: Settings, live: Live) -> Poll:
    beginning(settings.since, 0.0)  # a wrong one is refused now, not when the store is there
    filtered = {"filterType": "CASH", "filterAmount": settings.minimum} if settings.minimum else {}
    return Poll(
        f"{settings.data_url.rstrip('/')}/trades",
        order="newest-first",
        at="timestamp",
        unit="s",
        id=lambda row: "/".join(fill_parts(row)),
        rows=counted,
        paging=Offset(settings.page, max=DEEPEST),
        params={"takerOnly": "true", **filtered},
        # A constant URL is answered from the edge's cache for minutes; this documented parameter varies it.
        vary=lambda now: {"end": str(int(now) + 60)},
        since=FirstStart(settings.since, live),
        every=settings.every,
        lag=settings.lag,
        reach=settings.reach,
    )


class _Audience:
    """Says for whom a fill is. A market that is needed and not known yet is asked for again, later."""

    def __init__(self, subscribers: Setting[list[Subscriber]], markets: Markets, live: Live) -> None:
        self._subscribers = subscribers
        self._markets = markets
        self._live = live

    async def __call__(self, record: Record) -> Sequence[str]:
        return await self._untold(record, await self._interested(record))

    async def _untold(self, record: Record, chats: Sequence[str]) -> Sequence[str]:
        """Leave out whom an earlier version told, or is to tell: an entry under its old key takes its way."""
        former = [Key(NAME, *parts, chat) for parts in former_parts(record.body) for chat in chats]
        if not former:
            return chats
        entries = await self._live.ask(look(former))
        known = {key.parts[-1] for key, seen in zip(former, entries, strict=True) if seen.entry}
        return [chat for chat in chats if chat not in known]

    async def _interested(self, record: Record) -> Sequence[str]:
        one = fill(record.body)
        interested = [who for who in await self._subscribers.value() if wants(who, one)]
        if not any(map(needs_market, interested)):
            return [who.chat for who in interested]
        market = await self._markets.one(one.condition)
        return [who.chat for who in interested if not needs_market(who) or fits(who, market)]
