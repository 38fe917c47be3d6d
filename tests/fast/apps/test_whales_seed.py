"""The seed's own words over a ledger: kept where they were right, corrected where they were not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from onefold import Busy, Parked
from onefold.apps.whales.filters import Subscriber
from onefold.apps.whales.seed import TradeMarker, Trades, move_in
from onefold.core.entry import Change, Reply, Seen
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.runtime import current, now
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.worlds.chat import ChatWorld
from onefold.worlds.polymarket import Polymarket
from tests.fast.apps.test_whales import ROW, settings, transactions, worker
from tests.fast.worker.stage import run_until


def row(**change: Any) -> dict[str, Any]:
    return {**ROW, "timestamp": int(current().time()), **change}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


@pytest.fixture
def trades(url: str) -> Iterator[Trades]:
    made = Trades(url)
    yield made
    made.close()


def test_a_trade_that_was_marked_is_processed_and_only_the_first_mark_says_so(trades):
    trade = row()

    assert not trades.is_trade_processed(trade)
    assert trades.mark_trade_as_processed(trade)
    assert trades.is_trade_processed(trade)
    assert not trades.mark_trade_as_processed(trade)


class Meeting(MemoryStore):
    """A store in which others act just before a call of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(now)
        self.left = number
        self.others: Callable[[], None] = lambda: None

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        self._meet()
        return super().get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self._meet()
        return super().swap(changes)

    def _meet(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.others()


def test_of_many_who_mark_one_trade_at_once_one_hears_that_it_was_the_first():
    trade, heard = row(), list[bool]()

    def mark(*callers: Trades) -> None:
        for one in callers:
            with suppress(Busy):
                heard.append(one.mark_trade_as_processed(trade))

    for number in count(1):
        store = Meeting(number)
        ours, *others = (Trades(store) for _ in range(4))
        store.others = partial(mark, *others)
        heard.clear()
        mark(ours)
        if store.left > 0:
            break
        mark(*others)  # Busy asks the caller to come again
        assert sum(heard) == 1, f"they met at call {number}"

    assert number == 3, "they met before the claim, and before it was settled"


def test_a_trade_that_was_only_begun_is_not_processed_and_a_crash_does_not_lose_it(trades):
    trade = row()

    def crash() -> None:
        with trades.processing(trade) as claim:
            assert claim.won
            assert not trades.is_trade_processed(trade)
            raise RuntimeError("the worker dies")

    with pytest.raises(RuntimeError):
        crash()
    assert not trades.is_trade_processed(trade)
    with pytest.raises(Parked, match="in-doubt"):
        trades.mark_trade_as_processed(trade)


def test_a_second_fill_of_one_transaction_is_another_trade(trades):
    trades.mark_trade_as_processed(row(asset="1" * 70))

    assert not trades.is_trade_processed(row(asset="2" * 70))
    assert not trades.is_trade_processed(row(asset="1" * 70, side="SELL"))


def test_what_is_forgotten_is_not_processed_though_nobody_purged_it(tmp_path):
    clock = FakeClock(current().time() - 3600)
    store = MemoryStore(clock)
    trades = Trades(store, keep="15m")
    with trades.processing({**ROW, "timestamp": int(current().time())}):
        pass

    [seen] = store.get([key for key, _ in store.scan(None, ("done",), False, None, 10)[0]])
    assert seen.entry is not None, "it stands there still"
    assert not trades.is_trade_processed({**ROW, "timestamp": int(current().time())})


def test_a_trade_older_than_what_is_remembered_is_set_aside_and_not_done_again(trades):
    old = row(timestamp=int(current().time()) - 9 * 86400)

    with pytest.raises(Parked, match="beyond-memory"):
        trades.mark_trade_as_processed(old)


def test_a_cursor_moves_on_and_never_back_whoever_saves_it(url):
    first, second = Trades(url), Trades(url)
    assert first.load_cursor() is None

    assert first.save_cursor(TradeMarker(200, "0xb")) == TradeMarker(200, "0xb")
    assert second.save_cursor(TradeMarker(100, "0xa")) == TradeMarker(200, "0xb")
    assert second.save_cursor(TradeMarker(300, "0xc")) == TradeMarker(300, "0xc")
    assert first.load_cursor() == TradeMarker(300, "0xc")
    first.close()
    second.close()


def test_a_cursor_in_milliseconds_is_the_same_as_one_in_seconds(trades):
    trades.save_cursor(TradeMarker(1_700_000_000_500))

    assert trades.load_cursor() == TradeMarker(1_700_000_000)
    assert trades.save_cursor(TradeMarker(1_700_000_001)).timestamp == 1_700_000_001


# ----- moving over


def marked(transaction: str, ago: float = 60.0) -> dict[str, Any]:
    when = datetime.fromtimestamp(current().time() - ago, UTC).replace(tzinfo=None)
    # The seed forgot after fifteen minutes; what its database had not purged yet still proves what was done.
    return {"txHash": transaction, "processedAt": when, "expiresAt": when + timedelta(minutes=15)}


def test_what_the_seed_marked_is_processed_and_moving_again_changes_nothing(url, trades):
    documents = [marked("0xAB"), marked("0xCD", ago=3600), marked("0xEF", ago=9 * 86400)]

    assert move_in(documents, store=url) == {"done": 2, "forgotten": 1}
    assert move_in(documents, store=url) == {"known": 2, "forgotten": 1}
    assert trades.is_trade_processed(row(transactionHash="0xab", asset="2" * 70))
    assert trades.is_trade_processed(row(transactionHash="0xCD"))
    assert not trades.is_trade_processed(row(transactionHash="0xEF"))


@pytest.mark.parametrize(
    ("documents", "cursors", "says"),
    [
        ([{"hash": "0x1"}], [], "no txHash, but hash: is it processedTrades"),
        ([{"txHash": "0x1"}], [], "neither processedAt nor createdAt"),
        ([{"txHash": "0x1", "processedAt": "once"}], [], "processedAt is 'once'"),
        ([], [{"_id": "whale_worker_global"}], "no lastProcessedTimestamp"),
    ],
)
def test_a_document_that_is_none_of_the_seeds_is_refused(url, documents, cursors, says):
    with pytest.raises(Misconfigured, match=says):
        move_in(documents, cursors, url)


def test_the_app_goes_on_where_the_seed_was_and_tells_nothing_twice(url):
    everyone = (Subscriber(chat="all"), Subscriber(chat="new"))
    now = int(current().time())
    with Polymarket() as data, ChatWorld() as chat:
        old = data.draw(1, 6, now - 60)
        data.happen(*old)
        reached = old[3]["timestamp"] = max(one["timestamp"] for one in old[:4])
        rows = [{**one} for one in old]
        cursor = {"_id": "whale_worker_global", "lastProcessedTimestamp": reached * 1000}
        told = {one["transactionHash"] for one in old[:4]}
        move_in([marked(one) for one in told], [cursor], url, rows=rows, chats=["all"])
        again = move_in([marked(one) for one in told], [cursor], url, rows=rows, chats=["all"])
        left = [one for one in old if one["transactionHash"] not in told and one["timestamp"] >= reached]
        fresh = data.draw(2, 5, now)
        data.happen(*fresh)
        expected = len(left) + len(fresh)

        def all_told() -> bool:
            # Nobody says in which order the two hear of a fill.
            return chats(chat, "all") == expected and chats(chat, "new") > expected

        run_until(worker(settings(data, chat, *everyone), url), all_told)

    assert set(again) == {"known"}
    assert not told & {one for who, one in transactions(chat) if who == "all"}
    assert chats(chat, "new") > expected, (
        "whoever was not told by the seed hears of what the feed still shows"
    )


def chats(chat: ChatWorld, name: str) -> int:
    return sum(times for (who, _), times in transactions(chat).items() if who == name)
