"""Several processes and threads on one file: they wait for each other, and none loses what it was told."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from onefold.core.entry import NOTHING, Change
from onefold.core.errors import Locked, Unreachable
from onefold.core.key import Key
from onefold.drive import Merged, guard
from onefold.ledger import Ledger
from onefold.stores.sqlite import SqliteStore
from onefold.testing.contract.words import entry, in_order
from tests.fast.stores.sqlite.ledgers import KEYS, NEW, inserts, is_whole, made, token, tokens
from tests.processes.stores.sqlite.neighbours import FORKING, in_child, in_children, write_lock
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.filterwarnings(FORKING)]


# ----- locks


def test_a_file_that_another_process_keeps_locked_is_told_and_not_written(tmp_path):
    path = made(tmp_path / "ledger.db")
    store = SqliteStore(path, lock_timeout=0.05)

    with write_lock(path):
        with pytest.raises(Locked) as raised:
            store.swap(inserts([NEW]))
        assert store.get([NEW]) == [NOTHING], "reading needs no lock"

    assert str(raised.value) == f"{path} was locked by another process for 0.05 s; nothing was written"
    assert isinstance(raised.value, Unreachable)
    assert {token(reply) for reply in store.swap(inserts([NEW], token="bob"))} == {"bob"}


def test_a_lock_that_is_given_up_in_time_is_waited_for(tmp_path):
    path = made(tmp_path / "ledger.db")
    store = SqliteStore(path, lock_timeout=60)
    told: list[str | None] = []
    writer = threading.Thread(target=lambda: told.extend(map(token, store.swap(inserts([NEW], token="bob")))))

    with write_lock(path):
        writer.start()
        writer.join(0.05)
        assert writer.is_alive(), "it waits"
    writer.join()

    assert told == ["bob"]


# ----- the first moment of a file


def test_processes_that_create_the_same_file_at_once_share_one_ledger(tmp_path):
    for turn in range(5):
        path = tmp_path / f"{turn}.db"

        def create(name: str, path: Path = path) -> list[str | None]:
            store = SqliteStore(path)
            replies = store.swap(inserts([NEW, Key("orders", name)], token=name))
            store.close()
            return [token(reply) for reply in replies]

        names = [f"worker {number}" for number in range(4)]
        told = in_children([lambda name=name: create(name) for name in names])  # type: ignore[misc]
        store = SqliteStore(path, create=False)

        [winner] = tokens(store, [NEW])
        assert winner is not None
        assert winner in names
        assert [{*answer, winner} for answer in told] == [{name, winner} for name in names]
        assert tokens(store, [Key("orders", name) for name in names]) == {*names}
        assert store.query("SELECT value FROM onefold_meta") == [("2",)]
        assert [file.name for file in tmp_path.glob(f".{turn}.db*")] == [], "no drafts are left"
        store.close()


def test_processes_that_claim_the_same_keys_share_them_out(tmp_path):
    path = made(tmp_path / "ledger.db")
    keys = [Key("claims", number) for number in range(40)]

    def claim(name: str) -> list[bytes]:
        store = SqliteStore(path)
        replies = [store.swap([Change(key, None, entry(token=name))])[0] for key in keys]
        return [key.id for key, reply in zip(keys, replies, strict=True) if token(reply) == name]

    won = in_children([lambda name=name: claim(name) for name in ("a", "b", "c")])  # type: ignore[misc]

    assert sorted(id for mine in won for id in mine) == sorted(key.id for key in keys)


# ----- forks


def in_fork(store: SqliteStore, token: str) -> Callable[[], set[str | None]]:
    """Read and write, in a child, through the store that its parent opened."""

    def work() -> set[str | None]:
        store.swap(inserts([Key("forked", token)], token=token))
        return tokens(store)

    return work


def test_a_child_and_its_parent_both_go_on_with_the_same_store(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    assert tokens(store) == {"ann"}

    assert in_children([in_fork(store, "first"), in_fork(store, "second")]) == [{"ann"}] * 2
    store.swap(inserts([NEW], token="parent"))

    written = [Key("forked", "first"), Key("forked", "second"), NEW]
    assert tokens(store, written) == {"first", "second", "parent"}
    assert in_child(in_fork(store, "third")) == {"ann"}
    assert tokens(store, [Key("forked", "third")]) == {"third"}
    assert is_whole(store.path)


def test_a_child_that_closes_the_store_takes_nothing_from_its_parent(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    store.swap(inserts([NEW], token="parent"))

    in_child(store.close)

    assert tokens(store, [NEW]) == {"parent"}
    store.swap(inserts([Key("orders", "later")], token="parent"))
    store.close()
    assert is_whole(store.path)


class Halting:
    """A clock at which another thread is stopped, in the middle of a call, until this one waits for it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.main = threading.get_ident()

    def __call__(self) -> float:
        if threading.get_ident() != self.main:
            self.reached.set()
            self.go_on.wait(PATIENCE)
        return 1_700_000_000.0


def test_a_fork_waits_for_the_call_of_another_thread(tmp_path):
    clock = Halting()
    store = SqliteStore(made(tmp_path / "ledger.db"), clock=clock)
    writer = threading.Thread(target=lambda: store.swap(inserts([NEW], token="parent")))
    writer.start()
    clock.reached.wait()

    def go_on_when_the_fork_waits() -> None:
        wait_for(lambda: len(store._guard._queue.calls) == 2)
        clock.go_on.set()

    helper = threading.Thread(target=go_on_when_the_fork_waits)
    helper.start()

    assert in_child(in_fork(store, "child")) == {"ann"}
    in_child(store.close)
    writer.join()
    helper.join()

    assert tokens(store, [NEW, Key("forked", "child")]) == {"parent", "child"}


def test_a_fork_that_could_not_wait_leaves_the_parents_connection_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "LOOK", 0.01)
    monkeypatch.setattr(guard, "FORK_LOOKS", 1)
    clock = Halting()
    store = SqliteStore(made(tmp_path / "ledger.db"), clock=clock)
    writer = threading.Thread(target=lambda: store.swap(inserts([NEW], token="parent")))
    writer.start()
    clock.reached.wait()

    try:
        assert in_child(lambda: tokens(store)) == {"ann"}
        in_child(store.close)
    finally:
        clock.go_on.set()
        writer.join()

    assert tokens(store, [NEW]) == {"parent"}


def test_a_hundred_children_forked_while_four_threads_write_all_finish(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    stop, written = threading.Event(), count()

    def write() -> None:
        while not stop.is_set():
            ledger.call(Key("parent", next(written)), int)

    def charge(number: int) -> str:
        os.chdir("/")
        return ledger.call(Key("child", number), int).state

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        told = [
            answer
            for start in range(0, 100, 10)
            for answer in in_children([partial(charge, number) for number in range(start, start + 10)])
        ]
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert told == ["ran"] * 100
    assert all(ledger.look(Key("child", number)) for number in range(100))
    assert SqliteStore(tmp_path / "ledger.db").query("PRAGMA integrity_check") == [("ok",)]


def test_children_forked_while_another_thread_opens_the_ledger_all_finish(tmp_path):
    for turn in range(10):
        ledger = Ledger(f"sqlite:///{tmp_path}/{turn}.db")
        opening = threading.Barrier(2)

        def open_it(ledger: Ledger = ledger, opening: threading.Barrier = opening) -> None:
            opening.wait(PATIENCE)
            ledger.call(Key("opened", 1), int)

        thread = threading.Thread(target=open_it)
        thread.start()
        opening.wait(PATIENCE)
        assert in_child(lambda ledger=ledger: ledger.call(Key("child", 1), int).state) == "ran"  # type: ignore[misc]
        thread.join()
        assert ledger.call(Key("child", 1), int).state == "done"


def test_a_merged_store_goes_on_in_a_child(tmp_path):
    store = Merged(SqliteStore(made(tmp_path / "ledger.db")))
    store.swap(inserts([NEW], token="parent"))

    assert in_child(lambda: [token(reply) for reply in store.swap(inserts([NEW], token="child"))]) == [
        "parent"
    ]


# ----- threads


def test_threads_share_a_store_and_lose_nothing(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    keys = {name: [Key("threads", name, number) for number in range(25)] for name in "abcd"}

    def write(name: str) -> None:
        for key in keys[name]:
            store.swap([Change(key, None, entry(token=name))])

    threads = [threading.Thread(target=write, args=(name,)) for name in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {name: tokens(store, mine) for name, mine in keys.items()} == {name: {name} for name in keys}


def test_a_thread_may_close_what_others_use(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    found: list[set[str | None]] = []
    readers = [threading.Thread(target=lambda: found.append(tokens(store))) for _ in range(4)]

    for reader in readers:
        reader.start()
        store.close()
    for reader in readers:
        reader.join()

    assert found == [{"ann"}] * 4


def test_batches_of_two_processes_are_each_written_whole(tmp_path):
    path = made(tmp_path / "ledger.db")
    batch = [Key("batch", number) for number in range(200)]

    def write(name: str) -> set[str | None]:
        store = SqliteStore(path)
        return {token(reply) for reply in store.swap(in_order(inserts(batch, token=name)))}

    told = in_children([lambda: write("a"), lambda: write("b")])

    assert told[0] == told[1]
    assert len(told[0]) == 1, "one transaction each: the later one sees all of the earlier"
    assert tokens(SqliteStore(path), KEYS) == {"ann"}
