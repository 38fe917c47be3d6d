"""Interrupts: a signal's exception before any line locks nobody out and runs nothing twice."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from pathlib import Path

import pytest

from onefold.core import line
from onefold.core.errors import OnefoldError
from onefold.core.key import Key
from onefold.drive import guard, hearts, merging, singles, waiting
from onefold.ledger import Ledger, blocking, holding
from onefold.stores.sqlite import SqliteStore, file, plan
from tests.fast.stores.sqlite.ledgers import inserts
from tests.interrupts import UNSTARTED, every_line
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.filterwarnings(UNSTARTED)]

STORE = [file, plan]
CALL = [*STORE, guard, merging, line, waiting, singles, hearts, blocking, holding]


def others_can_write(path: Path, name: str) -> bool:
    """Write through another connection, which waits for nobody."""
    store = SqliteStore(path, lock_timeout=0.0)
    replies = store.swap(inserts([Key("others", name)], token=name))
    store.close()
    return len(replies) == 1


def test_an_interrupt_before_any_line_of_the_store_locks_nobody_out(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    store.get([])
    struck = 0

    for at, where in every_line([*STORE, guard], lambda at: store.swap(inserts([Key("struck", at)]))):
        struck += 1
        assert others_can_write(store.path, f"after {at}"), where
        assert store.get([Key("others", f"after {at}")])[0].entry is not None, where
        store.swap(inserts([Key("next", at)]))

    assert struck > 30


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_an_interrupt_before_any_line_of_a_call_runs_nothing_twice_and_the_next_call_works(
    kind, tmp_path, monkeypatch
):
    monkeypatch.setattr(guard, "LOOK", 0.01)
    path = tmp_path / "ledger.db"
    ledger = Ledger(f"sqlite:///{path}" if kind == "sqlite" else "memory:")
    ledger.look(Key("opens", 1))
    ran: Counter[int] = Counter()
    lines: dict[Key, str] = {}

    def charge(at: int) -> None:
        ledger.call(Key("struck", at), lambda: ran.update([at]))

    for at, where in every_line(CALL, charge):
        lines[Key("struck", at)] = where
        entry = ledger.look(Key("struck", at))
        if entry is not None and entry.state == "done":
            assert ran[at] == 1, f"done and never run, struck at {where}"
        if kind == "sqlite":
            assert others_can_write(path, f"after {at}"), where
        other = threading.Thread(target=charge, args=(-at,), daemon=True)
        other.start()
        other.join(PATIENCE)
        assert not other.is_alive(), f"another thread hangs after a strike at {where}"
        charge(at)  # whatever came of it: it is done, held or parked, and does not run again
        assert ran[at] <= 1, where
        assert ran[-at] == 1, where

    assert len(ran) > 200
    gc.collect()
    renewed = [lines[pulse.hold.key] for pulse in ledger._heart._pulses.values()]
    assert renewed == [], "the lease of an interrupted call is not renewed for ever"


def test_an_interrupt_before_any_line_of_opening_leaves_a_ledger_that_opens(tmp_path):
    def open_it(at: int) -> None:
        Ledger(f"sqlite:///{tmp_path}/{at}.db").call(Key("opened", 1), int)

    for at, where in every_line([file, plan, blocking], open_it):
        try:
            ledger = Ledger(f"sqlite:///{tmp_path}/{at}.db")
            assert ledger.call(Key("next", 1), int).state == "ran", where
        except OnefoldError as error:
            pytest.fail(f"struck at {where}: {error}")
