"""Group commit, struck by forks and by interrupts between any two lines."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pytest

from onefold.core import line as line_module
from onefold.core.entry import UNKNOWN
from onefold.drive import Merged, guard, merging, waiting
from onefold.drive.guard import Call
from onefold.stores.memory import MemoryStore
from tests.fast.drive.test_merging import change
from tests.interrupts import UNSTARTED, every_line
from tests.processes.drive.test_merging_threads import Gate
from tests.waiting import PATIENCE, wait_for


@pytest.mark.filterwarnings(UNSTARTED)
def test_an_interrupt_before_any_line_of_a_leader_leaves_the_others_with_an_answer(monkeypatch):
    monkeypatch.setattr(guard, "LOOK", 0.01)

    def lead(at: int) -> None:
        """Wait behind one call, with another one behind this: so this one leads, and is struck."""
        gate, told = Gate(), list[Any]()
        merged = Merged(gate)
        first, last = (
            threading.Thread(target=lambda name=name: told.extend(merged.swap([change(name)])))
            for name in ("first", "last")
        )
        first.start()
        assert gate.entered.wait(PATIENCE)
        opener = threading.Thread(target=lambda: open_behind(merged, gate, last))
        opener.start()
        try:
            merged.swap([change("struck", token=f"t{at}")])
        finally:
            sys.settrace(None)
            gate.open.set()
            for thread in (first, opener, last):
                thread.join(PATIENCE)
        ends.append(len(told))

    def open_behind(merged: Merged, gate: Gate, last: threading.Thread) -> None:
        wait_for(lambda: len(merged._queue.calls) > 1 or gate.open.is_set())
        asked = len(merged._queue.calls)
        last.start()
        wait_for(lambda: len(merged._queue.calls) > asked or gate.open.is_set())
        gate.open.set()

    ends = list[int]()
    struck = [line for _, line in every_line([merging, line_module, waiting], lead)]

    assert len(struck) > 20
    assert ends == [2], "told to both others in the attempt that got through"


def test_an_interrupt_before_any_line_leaves_the_queue_to_the_others(monkeypatch):
    monkeypatch.setattr(guard, "LOOK", 0.01)
    merged = Merged(MemoryStore())

    for at, line in every_line([merging, guard], lambda at: merged.swap([change(f"struck {at}")])):
        other = threading.Thread(target=merged.swap, args=([change(f"other {at}")],), daemon=True)
        other.start()
        other.join(PATIENCE)
        assert not other.is_alive(), f"another thread hangs after a strike at {line}"
        assert merged.swap([change(f"next {at}")])[0] is not UNKNOWN


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_queue_of_its_own():
    merged = Merged(MemoryStore())
    merged._queue.enter(Call(sys._getframe()))  # as if this call were in the middle of a swap
    pid = os.fork()
    if pid == 0:
        os._exit(0 if merged.swap([change(1)])[0] is not UNKNOWN else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
