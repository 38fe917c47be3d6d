"""Group commit of threads: what they ask while a call is under way leaves together in the next.

Threads meet in real time, so this cannot be fast; `tests/fast/drive/test_merging.py` holds the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from onefold.core.entry import UNKNOWN, Change, Reply, Seen
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.drive import Merged
from onefold.stores.memory import MemoryStore
from tests.fast.drive.test_merging import change
from tests.waiting import PATIENCE, wait_for


class Gate:
    """A store that notes each call and lets the first one through only when told."""

    def __init__(self, fail: Callable[[Sequence[Change]], BaseException | None] = lambda _: None) -> None:
        self.store = MemoryStore()
        self.calls: list[int] = []
        self.entered = threading.Event()
        self.open = threading.Event()
        self.fail = fail

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self.calls.append(len(changes))
        if len(self.calls) == 1:
            self.entered.set()
            assert self.open.wait(PATIENCE)
        error = self.fail(changes)
        if error:
            raise error
        return self.store.swap(changes)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.store.get(keys)

    def scan(self, *args: Any) -> Any:
        return self.store.scan(*args)

    def close(self) -> None:
        self.store.close()


def asked_together(gate: Gate, changes: Sequence[Change]) -> list[Any]:
    """Ask for the first change, and for all others while that call is under way; return what each heard."""
    merged = Merged(gate)
    heard: list[Any] = [None] * len(changes)

    def ask(at: int) -> None:
        try:
            heard[at] = merged.swap([changes[at]])
        except BaseException as error:
            heard[at] = error

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(changes))]
    threads[0].start()
    assert gate.entered.wait(PATIENCE)
    for thread in threads[1:]:
        thread.start()
    # Threads enter the queue meanwhile, so a copy of it is read.
    wait_for(lambda: sum(call.ask is not None for call in merged._queue.calls.copy()) >= len(changes) - 1)
    gate.open.set()
    for thread in threads:
        thread.join()
    return heard


def test_what_is_asked_during_a_call_leaves_together_in_the_next():
    gate = Gate()

    heard = asked_together(gate, [change(n) for n in range(1, 21)])

    assert gate.calls == [1, 19]
    assert all(reply[0].entry.state == "held" for reply in heard)


def test_every_asker_gets_the_reply_to_its_own_key():
    gate = Gate()
    changes = [change(n, token=f"t{n}") for n in range(1, 21)]

    heard = asked_together(gate, changes)

    assert [reply[0].entry.token for reply in heard] == [f"t{n}" for n in range(1, 21)]


def test_a_key_stands_once_in_a_call():
    gate = Gate()

    heard = asked_together(gate, [change("first"), *(change("same", token=f"t{n}") for n in range(5))])

    assert gate.calls == [1, 1, 1, 1, 1, 1]
    assert len({reply[0].entry.token for reply in heard[1:]}) == 1


def test_a_merged_call_that_fails_is_split_so_that_only_the_poison_fails():
    poison = Key("merge", 7)
    gate = Gate(lambda changes: Unreachable("poison") if any(one.key == poison for one in changes) else None)

    heard = asked_together(gate, [change(n) for n in range(1, 11)])

    assert [at for at, reply in enumerate(heard) if isinstance(reply, Unreachable)] == [6]
    assert gate.calls[:2] == [1, 9]


def test_if_the_leader_dies_in_the_call_the_others_hear_unknown():
    died: list[int] = []

    def die(changes: Sequence[Change]) -> BaseException | None:
        if len(changes) > 1:
            died.append(len(changes))
            return KeyboardInterrupt()
        return None

    heard = asked_together(Gate(die), [change(n) for n in range(1, 6)])

    assert died == [4]
    assert sum(isinstance(reply, KeyboardInterrupt) for reply in heard) == 1
    assert [reply for reply in heard if reply == [UNKNOWN]] == [[UNKNOWN]] * 3


def test_if_the_leader_dies_while_it_splits_those_behind_hear_unknown():
    def die(changes: Sequence[Change]) -> BaseException | None:
        if len(changes) > 1:
            return Unreachable("poison")
        return KeyboardInterrupt() if changes[0].key == Key("merge", 3) else None

    heard = asked_together(Gate(die), [change(n) for n in range(1, 6)])

    told = [reply if isinstance(reply, BaseException) else reply[0] for reply in heard]
    assert sum(isinstance(one, KeyboardInterrupt) for one in told) == 1
    assert all(isinstance(one, KeyboardInterrupt | Seen) or one is UNKNOWN for one in told)
    assert UNKNOWN in told
