"""Whales where its seed goes wrong: crashes, ties, bursts, restarts and rivals, counted in the chat."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from onefold import Ledger
from onefold.apps.whales.filters import Subscriber
from onefold.core.documents import load
from onefold.core.terms import Terms
from onefold.drive import Inline, Ports, run
from onefold.runtime import current
from onefold.stores import connect
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.worker.progress import cursor_key, position
from onefold.worlds.chat import ChatWorld
from onefold.worlds.mischief import Mischief
from onefold.worlds.polymarket import Polymarket
from tests.fast.apps.lives import run_until_killed
from tests.fast.apps.messaging import run_until as run_all_until
from tests.fast.apps.test_whales import ALL, expected, settings, transactions, worker
from tests.fast.worker.stage import run_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def cursor(url: str) -> float | None:
    store = connect(url)
    try:
        [document] = run(load([cursor_key("whales", "trades")]), Ports(store))
    finally:
        store.close()
    return position(document.value)[0].at if document else None


def at_least(chat: ChatWorld, number: int) -> bool:
    return transactions(chat).total() >= number


def parked(url: str) -> int:
    ledger = Ledger(url)
    try:
        return sum(entry.why == "in-doubt" for _, entry in ledger.entries("whales", "parked"))
    finally:
        ledger.close()


QUICK = Terms(lease=2, keep="8d")
"""The lease of a dead worker is over soon."""


def test_a_worker_killed_while_it_alerts_leaves_a_doubt_and_loses_no_trade(url):
    # The seed marks before it alerts: killed in between, it never alerts.
    with Polymarket() as data, ChatWorld(Mischief(0, {"stall": 1.0}, 3600.0)) as chat:
        data.happen(*data.draw(1, 6, int(current().time()) - 30))
        said = settings(data, chat, ALL)
        run_until_killed(worker(said, url, QUICK), lambda: transactions(chat).total() == 6)
        chat.mischief.stop()
        data.happen(*data.draw(2, 4, int(current().time())))
        wanted = expected(data, ALL)
        run_until(worker(said, url, QUICK), lambda: transactions(chat).total() == 10 and parked(url) == 6)

    assert transactions(chat) == wanted


def test_a_restart_in_the_middle_of_a_batch_abandons_no_older_half(url):
    # The seed reads newest first and moves its cursor to the newest.
    # Every answer takes a moment, so that a worker is stopped while alerts are under way.
    with Polymarket() as data, ChatWorld(Mischief(0, {"stall": 1.0}, 0.05)) as chat:
        data.happen(*data.draw(3, 40, int(current().time()) - 30))
        said = settings(data, chat, ALL)
        starts = 0
        while (told := transactions(chat).total()) < 40:
            run_until(worker(said, url), partial(at_least, chat, min(told + 5, 40)))
            starts += 1

    assert starts > 1
    assert transactions(chat) == expected(data, ALL)


def test_a_burst_larger_than_a_page_leaves_no_hole(url):
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(1, 2, int(current().time()) - 60))
        said = settings(data, chat, ALL)
        run_until(worker(said, url), lambda: transactions(chat).total() == 2)
        # More than five pages of twenty, several to a second, while the rows go on moving down the pages.
        data.happen(*data.draw(2, 110, int(current().time()) - 5))
        run_until(worker(said, url), lambda: transactions(chat).total() >= 112)

    assert transactions(chat) == expected(data, ALL)


def test_reading_does_not_depend_on_meeting_the_fill_at_the_cursor(url):
    # A reorganised block or another filter takes it away; the seed would then read on, or stop too early.
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(1, 5, int(current().time()) - 20))
        said = settings(data, chat, ALL)
        run_until(worker(said, url), lambda: transactions(chat).total() == 5)
        data.trades.remove("fill-5", "fill-4")
        data.happen(*data.draw(2, 5, int(current().time())))
        run_until(worker(said, url), lambda: transactions(chat).total() >= 10)

    assert transactions(chat) == expected(data, ALL)


def test_the_cursor_stands_at_the_newest_fill_and_a_late_one_does_not_move_it_back(url):
    now = int(current().time())
    with Polymarket() as data, ChatWorld() as chat:
        [first, second, late] = data.draw(1, 3, now)
        stamps = {0: now - 40, 1: now - 20, 2: now - 30}
        rows = [{**row, "timestamp": stamps[at]} for at, row in enumerate((first, second, late))]
        data.happen(*rows[:2])
        said = settings(data, chat, ALL)
        run_until(worker(said, url), lambda: transactions(chat).total() == 2)
        before = cursor(url)
        data.happen(rows[2])
        run_until(worker(said, url), lambda: transactions(chat).total() == 3)

    assert before == cursor(url) == now - 20


def test_two_workers_that_see_the_same_fills_alert_once(url):
    # The seed checks, then marks: two workers pass the check together.
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(1, 40, int(current().time()) - 20))
        said = settings(data, chat, ALL, Subscriber(chat="large", min_notional=50_000))
        wanted = expected(data, *said.subscribers)
        pair = [worker(said, url), worker(said, url)]
        run_all_until(pair, lambda: transactions(chat).total() >= wanted.total())

    assert transactions(chat) == wanted


def test_an_outage_longer_than_the_seeds_memory_repeats_nothing():
    # The seed remembered for fifteen minutes; sixteen pass by the store's clock, and the feed repeats itself.
    clock = FakeClock(current().time() - 16 * 60)
    store = MemoryStore(clock)
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(1, 8, int(clock())))
        said = settings(data, chat, ALL)
        run_until(worker(said, Inline(store)), lambda: transactions(chat).total() == 8)
        clock.sleep(16 * 60)
        data.happen(*data.draw(2, 1, int(clock())))
        run_until(worker(said, Inline(store)), lambda: transactions(chat).total() >= 9)

    assert transactions(chat) == expected(data, ALL)


def test_eighteen_trades_of_one_second_with_page_boundaries_inside_are_each_told_once(url):
    now = int(current().time()) - 5
    with Polymarket() as data, ChatWorld() as chat:
        rows = [{**row, "timestamp": now} for row in data.draw(9, 40, now)]
        apart = list({row["transactionHash"]: row for row in rows}.values())[:18]
        data.happen(*apart)
        said = msgspec.structs.replace(settings(data, chat, ALL), page=5)
        run_until(worker(said, url), lambda: transactions(chat).total() >= 18)
        again = worker(said, url)
        run_until(again, lambda: again.ready)

    assert transactions(chat) == {("all", row["transactionHash"]): 1 for row in apart}
    assert len(apart) == 18
