"""Whales dies at a named point of its work: between mark and send, send and mark, last send and cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold import Ledger
from onefold.drive import Event
from onefold.runtime import current
from onefold.worlds.chat import ChatWorld
from onefold.worlds.polymarket import Polymarket
from tests.fast.apps.lives import marked, run_until_it_dies, sent, told
from tests.fast.apps.test_whales import ALL, expected, settings, transactions, worker
from tests.fast.apps.test_whales_traps import QUICK, cursor
from tests.fast.worker.stage import run_until

FILLS = 5


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def crash(fatal: Callable[[Event], bool], store: str) -> tuple[int, int, int]:
    """Let it die and start it again; say how many were told before, and in the end told and in doubt."""
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(4, FILLS, int(current().time()) - 30))
        said = settings(data, chat, ALL)
        run_until_it_dies(worker(said, store, QUICK), fatal)
        before = transactions(chat).total()
        assert cursor(store) is None, "it died before its cursor was written"
        data.happen(*data.draw(5, 1, int(current().time())))
        run_until(worker(said, store, QUICK), lambda: is_through(data, chat, store))
    assert transactions(chat) <= expected(data, ALL), "nothing was told twice"
    return before, transactions(chat).total(), in_doubt(store).total()


def is_through(data: Polymarket, chat: ChatWorld, store: str) -> bool:
    """Say whether everything is told or in doubt, nothing is held, and the cursor is written."""
    return not (missing(data, chat, store) or held(store)) and cursor(store) is not None


def missing(data: Polymarket, chat: ChatWorld, store: str) -> list[str]:
    """Name the transactions of which something is neither told nor in doubt."""
    doubts = in_doubt(store)
    untold = expected(data, ALL) - transactions(chat)
    return [one for (_, one), times in untold.items() if times > doubts[one]]


def held(store: str) -> int:
    ledger = Ledger(store)
    try:
        return sum(1 for _ in ledger.entries("whales", "held"))
    finally:
        ledger.close()


def in_doubt(store: str) -> Counter[str]:
    ledger = Ledger(store)
    try:
        found = [(key, entry.why) for key, entry in ledger.entries("whales", "parked")]
    finally:
        ledger.close()
    assert {why for _, why in found} <= {"in-doubt"}
    return Counter(next(part for part in key.label.split("/") if part.startswith("0x")) for key, _ in found)


def test_a_crash_between_mark_and_send_leaves_a_doubt_and_loses_nothing(url):
    before, heard, doubts = crash(marked, url)

    assert before == 0
    assert doubts > 0
    assert heard + doubts == FILLS + 1


def test_a_crash_between_send_and_mark_leaves_a_doubt_and_no_second_message(url):
    before, heard, doubts = crash(sent, url)

    assert before > 0
    assert doubts >= 1, "nobody wrote down that it was sent"
    assert heard <= FILLS + 1


def test_a_crash_between_last_send_and_cursor_tells_nothing_twice(url):
    before, heard, doubts = crash(told, url)

    assert (before, heard, doubts) == (FILLS, FILLS + 1, 0)
