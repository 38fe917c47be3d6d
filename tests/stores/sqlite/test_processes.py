"""Several processes and threads on one file: they wait for each other, and none loses what it was told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.core.entry import NOTHING, Change
from onefold.core.errors import Locked, Unreachable
from onefold.core.key import Key
from onefold.drive import Merged
from onefold.stores.sqlite import SqliteStore
from onefold.testing.contract.words import entry, in_order
from tests.stores.sqlite.ledgers import KEYS, NEW, inserts, is_whole, made, token, tokens
from tests.stores.sqlite.neighbours import FORKING, in_child, in_children, write_lock

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
    assert Path(f"{store.path}-wal").stat().st_size > 0, "the log still belongs to the parent"
    store.swap(inserts([Key("orders", "later")], token="parent"))
    store.close()
    assert is_whole(store.path)


class Halting:
    """A clock at which a caller can be stopped, in the middle of a call and with the store's lock."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.main = threading.get_ident()

    def __call__(self) -> float:
        if threading.get_ident() != self.main:
            self.reached.set()
            self.go_on.wait()
        return 1_700_000_000.0


def test_a_fork_in_the_middle_of_another_threads_call_does_not_block_the_child(tmp_path):
    clock = Halting()
    store = SqliteStore(made(tmp_path / "ledger.db"), clock=clock)
    writer = threading.Thread(target=lambda: store.swap(inserts([NEW], token="parent")))
    writer.start()
    clock.reached.wait()

    try:
        assert in_child(lambda: (tokens(store), tokens(store, [NEW]))) == ({"ann"}, {None})
        in_child(store.close)
    finally:
        clock.go_on.set()
        writer.join()

    assert tokens(store, [NEW]) == {"parent"}


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
