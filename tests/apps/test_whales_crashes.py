"""Whales dies at a named point of its work: between mark and send, send and mark, last send and cursor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from onefold import Ledger
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.polymarket import Polymarket
from tests.apps.test_whales import ALL, expected, transactions
from tests.apps.test_whales_traps import CONFIG, cursor, start
from tests.waiting import PATIENCE, wait_for

ROOT = Path(__file__).resolve().parents[2]
FILLS = 5


def die_at(point: str, folder: Path, store: str) -> int:
    """Run whales until it kills itself there."""
    environment = {**os.environ, "WHALES_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.apps.dying", point, store]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE
    ).returncode


def crash(point: str, folder: Path) -> tuple[int, int, int]:
    """Let it die and start it again; say how many were told before, and in the end told and in doubt."""
    store = f"sqlite:///{folder / 'onefold.db'}"
    with Polymarket() as data, ChatWorld() as chat:
        (folder / "onefold.toml").write_text(CONFIG.format(store=store, data=data.url, chat=chat.url))
        data.happen(*data.draw(4, FILLS, int(time.time()) - 30))
        assert die_at(point, folder, store) == -9
        before = transactions(chat).total()
        assert cursor(store) is None, "it died before its cursor was written"
        data.happen(*data.draw(5, 1, int(time.time())))
        again = start(folder)
        try:
            wait_for(lambda: not (missing(data, chat, store) or held(store)) and cursor(store) is not None)
        finally:
            again.terminate()
            again.wait(PATIENCE)
    assert transactions(chat) <= expected(data, ALL), "nothing was told twice"
    return before, transactions(chat).total(), in_doubt(store).total()


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


@pytest.mark.store("sqlite")
def test_a_crash_between_mark_and_send_leaves_a_doubt_and_loses_nothing(tmp_path):
    before, told, doubts = crash("marked", tmp_path)

    assert before == 0
    assert doubts > 0
    assert told + doubts == FILLS + 1


@pytest.mark.store("sqlite")
def test_a_crash_between_send_and_mark_leaves_a_doubt_and_no_second_message(tmp_path):
    before, told, doubts = crash("sent", tmp_path)

    assert before > 0
    assert doubts >= 1, "nobody wrote down that it was sent"
    assert told <= FILLS + 1


@pytest.mark.store("sqlite")
def test_a_crash_between_last_send_and_cursor_tells_nothing_twice(tmp_path):
    before, told, doubts = crash("told", tmp_path)

    assert (before, told, doubts) == (FILLS, FILLS + 1, 0)
