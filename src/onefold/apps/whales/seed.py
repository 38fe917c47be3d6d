"""The words of the worker that whales comes from, over a ledger: mark, ask, load and save a cursor.

For code that used its collections `processedTrades` and `whaleAlertCursors`. The words are kept, their
mistakes are not: only what is done counts as processed, a fill is named by more than its transaction, marking
says whether it was the first, memory lasts as long as the feed can show a fill, a cursor never goes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from onefold.apps._polymarket import counted, fill_parts, former_parts
from onefold.core.documents import load, named, save
from onefold.core.entry import expired
from onefold.core.errors import Busy, Misconfigured, Parked
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.core.terms import Duration, Seconds, Terms, seconds
from onefold.drive import Ports, run
from onefold.ledger import Claim, Ledger
from onefold.runtime import current
from onefold.worker.moving import Memory, moment, store_at
from onefold.worker.moving import move as move_memories
from onefold.worker.operating import Move, cursor, move

SCOPE = "whales.seed"
GLOBAL = "global"
KEEP = "8d"

Row = Mapping[str, Any]


class TradeMarker(NamedTuple):
    """How far trades were read: the second of the newest one. Its transaction is for people alone."""

    timestamp: int
    transaction: str = ""


class Trades:
    """What was processed, and how far: for one worker or for many."""

    def __init__(
        self, store: str | Store | None = None, *, keep: Duration = KEEP, lease: Duration = 60
    ) -> None:
        self._store = store_at(store) if store is None or isinstance(store, str) else store
        self._ledger = Ledger(self._store)
        self._terms = Terms(lease=lease, keep=keep)

    # ----- the set of processed trades

    def processing(self, trade: Row) -> Claim:
        """Claim a trade before it is processed: `with trades.processing(row) as claim: if claim.won: …`.

        Leaving the block marks it. A crash inside leaves it in doubt, where the seed's mark lost it.
        """
        return self._ledger.claim(self._key(trade), terms=self._terms, at=_at(trade))

    def mark_trade_as_processed(self, trade: Row) -> bool:
        """Mark a trade; True if nobody did before. One of several callers hears True, and only one."""
        key = self._key(trade)
        outcome = self._ledger.call(key, _nothing, terms=self._terms, at=_at(trade))
        match outcome.state:
            case "busy":
                raise Busy(key, self._terms.lease)
            case "parked":
                raise Parked(key, (outcome.entry and outcome.entry.why) or "by-hand")
        return outcome.state == "ran"

    def is_trade_processed(self, trade: Row) -> bool:
        """Say whether a trade was processed: done, and not only begun. What was forgotten is not."""
        keys = (self._key(trade), _moved_key(str(trade["transactionHash"])))
        entries = (self._ledger.look(key) for key in keys)
        return any(one and one.state == "done" and not expired(one, current().time()) for one in entries)

    def _key(self, trade: Row) -> Key:
        """Name a trade; one that an earlier version knows keeps the name under which it does."""
        former = (Key(SCOPE, *parts) for parts in former_parts(trade))
        return next((key for key in former if self._ledger.look(key)), Key(SCOPE, *fill_parts(trade)))

    # ----- the cursor

    def load_cursor(self) -> TradeMarker | None:
        """Read how far trades were read."""
        [document] = run(load([_CURSOR]), Ports(self._store))
        return _marker(document.value) if document else None

    def save_cursor(self, marker: TradeMarker) -> TradeMarker:
        """Move the cursor on, and return where it stands: another worker may have moved it further."""
        at = int(moment(marker.timestamp, "the timestamp of the cursor") or 0)

        def change(stands: Any) -> Any:
            if stands and stands["at"] >= at:
                return None
            text = {"pipeline": SCOPE, "source": GLOBAL, "generation": 0, "status": "saved", **(stands or {})}
            return {**text, "at": at, "transaction": marker.transaction}

        document = run(save(_CURSOR, current().token(), change), Ports(self._store))
        assert document is not None, "a cursor that was not moved stands"
        return _marker(document.value)

    def close(self) -> None:
        self._ledger.close()
        self._store.close()


_CURSOR = named("cursors", SCOPE, GLOBAL)


def _marker(text: Any) -> TradeMarker:
    return TradeMarker(int(text["at"]), text.get("transaction", ""))


def _moved_key(transaction: str) -> Key:
    """Name a transaction as the seed marked it: whole, whatever fills it held."""
    return Key(SCOPE, "transaction", transaction.lower())


def _at(trade: Row) -> datetime:
    """Say when a trade happened: one that is older than what is remembered is parked, not done again."""
    return datetime.fromtimestamp(moment(trade["timestamp"], "the timestamp of a trade") or 0, UTC)


def _nothing() -> None:
    """There is nothing to do but to mark it."""


# ----- moving over


def move_in(
    processed: Iterable[Row],
    cursors: Iterable[Row] = (),
    store: str | None = None,
    *,
    rows: Sequence[Row] = (),
    chats: Sequence[str] = (),
    keep: Duration = KEEP,
    now: float | None = None,
) -> Counter[str]:
    """Move documents of `processedTrades` and `whaleAlertCursors` into a store; count what became of them.

    `rows` is what the feed shows now, and `chats` who was told by the seed: of what it had marked, or passed
    with its cursor, the app will tell those chats nothing more. The app's cursor is set if none stands.
    """
    at = current().time() if now is None else now
    marks = {_transaction(one): _marked_at(one) for one in processed}
    reached = [_reached(one) for one in cursors]
    kept = seconds(keep, "keep")
    memories = [
        _memory(_moved_key(transaction), when + kept - at) for transaction, when in marks.items()
    ] + list(_told(rows, chats, set(marks), max(reached, default=0), kept))
    became = Counter[str](move_memories([one for one in memories if (one.keep or 0) > 0], store))
    became["forgotten"] = sum((one.keep or 0) <= 0 for one in memories)
    if reached:
        became["cursor"] = _set_cursor(max(reached), store)
    return +became


def _told(
    rows: Sequence[Row], chats: Sequence[str], marked: set[str], reached: int, keep: Seconds
) -> Iterator[Memory]:
    """Say which alerts the seed has sent, or must count as sent: it marked before it told."""
    for row in counted(list(rows)):
        if str(row["transactionHash"]).lower() in marked or int(row["timestamp"]) < reached:
            yield from (_memory(Key("whales", *fill_parts(row), chat), keep) for chat in chats)


def _memory(key: Key, keep: Seconds) -> Memory:
    return Memory(key, "done", keep=keep, source="processedTrades")


def _transaction(document: Row) -> str:
    value = document.get("txHash")
    if isinstance(value, str) and value:
        return value.lower()
    raise Misconfigured(
        f"a document has no txHash, but {', '.join(map(str, document))[:80]}: is it processedTrades?"
    )


def _marked_at(document: Row) -> float:
    when = moment(document.get("processedAt") or document.get("createdAt"), "processedAt")
    if when is None:
        raise Misconfigured(
            f"{document['txHash']!r:.80} of processedTrades has neither processedAt nor createdAt"
        )
    return when


def _reached(document: Row) -> int:
    when = moment(document.get("lastProcessedTimestamp"), "lastProcessedTimestamp")
    if when is None:
        raise Misconfigured("a document of whaleAlertCursors has no lastProcessedTimestamp")
    return int(when)


def _set_cursor(at: int, store: str | None) -> int:
    """Set the cursor of the app, if it has none; what lies before it was the seed's, and shows as a gap."""
    opened = store_at(store)
    try:
        stands = run(cursor("whales", "trades"), Ports(opened))
        if stands is not None:
            return 0
        wanted = Move("whales", "trades", at, "move_in", 0)
        return int(run(move(wanted, current().token()), Ports(opened)) is not None)
    finally:
        opened.close()
