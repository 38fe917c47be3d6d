"""Which wallets are copied now, and since when: a live setting, and a document that remembers additions.

Both sources and the sink ask it, so that a leader who is added is read from then on, and one who is removed
is copied no longer, also where a trade is under way. The document holds this across workers and restarts.
It reads no trades.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

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


class Leaders:
    """The leaders as they stand, by a live setting and until then by the configuration."""

    def __init__(self, given: Sequence[str], live: Live, clock: Callable[[], float] = now) -> None:
        self._setting: Setting[list[str]] = live.setting("leaders", Wallets, list(given))
        self._live = live
        self._clock = clock
        self._key = named("copytrade", "leaders")
        self._since: dict[str, float] = {}

    @property
    def every(self) -> float:
        """Seconds for which an answer is believed."""
        return self._live.every

    async def since(self) -> Since:
        """Return the leaders of now, each with the time from which on they are copied."""
        wanted = dict.fromkeys(one.lower() for one in await self._setting.value())
        if wanted.keys() != self._since.keys():
            self._since = await self._changed(list(wanted))
        return self._since

    async def _changed(self, wanted: Sequence[str]) -> dict[str, float]:
        """Note who came and who went; the first leaders of a ledger are copied as far back as `max_age`."""
        put = await self._live.read(self._setting.name)
        # Who is added is copied from when an operator said so, not from when this worker heard of it.
        # Trades carry whole seconds: one that follows within this second carries its beginning.
        now = float(math.floor(put.written if put else self._clock()))

        def change(stands: Any) -> dict[str, float] | None:
            known = None if stands is None else {one: float(at) for one, at in stands.items()}
            kept = {one: 0.0 if known is None else known.get(one, now) for one in wanted}
            return None if kept == known else kept

        document = await self._live.ask(save(self._key, current().token(), change))
        stands = document.value if document else {}
        return {one: float(stands.get(one, now)) for one in wanted}
