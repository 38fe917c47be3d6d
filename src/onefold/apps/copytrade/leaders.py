"""Which wallets are copied now, and since when: a live setting, and a document that remembers additions.

Both sources and the sink ask it, so that a leader who is added is read from then on, and one who is removed
is copied no longer, also where a trade is under way. The document holds this across workers and restarts.
It reads no trades.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from onefold.core.documents import named, save
from onefold.runtime import current, now
from onefold.worker.settings import Live, Setting

WALLET = re.compile(r"0x[0-9a-fA-F]{40}")

Wallet = Annotated[str, msgspec.Meta(pattern=rf"^{WALLET.pattern}$")]
Wallets = Annotated[list[Wallet], msgspec.Meta(min_length=1)]
"""What `copytrade.leaders` may hold."""

Since = Mapping[str, float]
"""By leader: nothing that happened before this time is copied."""


class Noted(NamedTuple):
    """What the document holds: since when each leader is copied, and by which list."""

    number: int
    """How often the list was put that this was made from; 0 for the list of the configuration."""
    since: dict[str, float]


class Leaders:
    """The leaders as they stand, by a live setting and until then by the configuration."""

    def __init__(self, given: Sequence[str], live: Live, clock: Callable[[], float] = now) -> None:
        self._setting: Setting[list[str]] = live.setting("leaders", Wallets, list(given))
        self._live = live
        self._clock = clock
        self._key = named("copytrade", "leaders")
        self._since: Since = {}
        self._number: int | None = None
        """Which list was last compared with the document."""

    @property
    def every(self) -> float:
        """Seconds for which an answer is believed."""
        return self._live.every

    async def since(self) -> Since:
        """Return the leaders of a few seconds ago, each with the time from which on they are copied."""
        return await self._noted(await self._setting.value())

    async def fresh(self) -> Since:
        """Return the leaders of now; raise if the store cannot be reached."""
        return await self._noted(await self._setting.fresh())

    async def _noted(self, wallets: Sequence[str]) -> Since:
        if self._setting.number != self._number:
            number = self._setting.number
            self._since = await self._changed(list(dict.fromkeys(one.lower() for one in wallets)))
            self._number = number
        return self._since

    async def _changed(self, wanted: Sequence[str]) -> Since:
        """Note who came and who went; the first leaders of a ledger are copied as far back as `max_age`."""
        number, written = self._setting.number, self._setting.written
        # A leader who is added is copied from when an operator put the list, not from when this worker read
        # it. Trades carry whole seconds: one that follows within this second carries its beginning.
        now = float(math.floor(self._clock() if written is None else written))

        def change(stands: Any) -> dict[str, Any] | None:
            known = noted(stands)
            if known is not None and known.number > number:
                return None  # another worker has read a later list already
            kept = {one: 0.0 if known is None else known.since.get(one, now) for one in wanted}
            wish = Noted(number, kept)
            return None if wish == known else wish._asdict()

        document = await self._live.ask(save(self._key, current().token(), change))
        known = noted(document.value if document else None)
        return known.since if known else dict.fromkeys(wanted, now)


def noted(text: Any) -> Noted | None:
    """Read the document; before lists were numbered it held nothing but the leaders."""
    if text is None:
        return None
    if "since" not in text:
        return Noted(0, {one: float(at) for one, at in text.items()})
    return Noted(int(text["number"]), {one: float(at) for one, at in text["since"].items()})
