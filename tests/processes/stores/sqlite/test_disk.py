"""A disk that is full, or that fails to sync: nothing acknowledged is lost, and nothing is made up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest

from onefold.core.entry import UNKNOWN
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.stores.sqlite import SqliteStore
from tests.fast.stores.sqlite.ledgers import KEYS, NEW, inserts, is_whole, made, token, tokens

pytestmark = pytest.mark.store("sqlite")


def fill(store: SqliteStore) -> list[Key]:
    """Write until the disk is full; return what was acknowledged."""
    acknowledged: list[Key] = []
    for number in range(10_000):
        keys = [Key("filling", number, part) for part in range(20)]
        try:
            replies = store.swap(inserts(keys, body="x" * 2000))
        except Unreachable:
            return acknowledged
        assert {token(reply) for reply in replies} == {"ann"}
        acknowledged += keys
    raise AssertionError("this disk has no end")


def check_full_disk(store: SqliteStore, make_room: Callable[[], object]) -> None:
    """Fill a disk, look, make room again, and go on."""
    acknowledged = fill(store)
    assert acknowledged
    assert tokens(store, acknowledged) == {"ann"}
    with pytest.raises(Unreachable) as raised:
        store.swap(inserts([Key("filling", "once", part) for part in range(20)], body="x" * 2000))
    assert str(raised.value) == f"the disk that holds {store.path} is full; nothing was written"
    assert isinstance(raised.value.__cause__, apsw.FullError)

    make_room()

    assert {token(reply) for reply in store.swap(inserts([NEW]))} == {"ann"}
    assert tokens(store, [*acknowledged, NEW]) == {"ann"}
    assert store.query("PRAGMA integrity_check") == [("ok",)]
    assert store.query("SELECT count(*) FROM onefold_entries") == [(len(acknowledged) + 1,)]
    store.close()


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let SQLite take no file for larger than 60 pages, as if the disk had no more."""

    def small(connection: apsw.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 60")

    apsw.connection_hooks.append(small)
    yield
    apsw.connection_hooks.remove(small)


@pytest.mark.usefixtures("small_files")
def test_a_file_that_may_not_grow_loses_nothing_and_goes_on_when_it_may(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")

    check_full_disk(store, lambda: store.query("PRAGMA max_page_count = 100000"))


@contextmanager
def mounted(folder: Path) -> Iterator[Callable[[], object]]:
    """Mount a disk of one megabyte, if that is allowed here; give what makes it larger."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only, and not in every container")
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(tmp_path):
    with mounted(tmp_path) as make_room:
        check_full_disk(SqliteStore(tmp_path / "ledger.db"), make_room)


def test_a_ledger_cannot_be_made_on_a_full_disk_and_can_be_later(tmp_path):
    with mounted(tmp_path) as make_room:
        filler = tmp_path / "filler"
        with suppress(OSError), filler.open("wb") as file:
            file.write(b"x" * 2_000_000)
        with pytest.raises(Unreachable, match="is full"):
            SqliteStore(tmp_path / "ledger.db").swap(inserts([NEW]))
        assert [path.name for path in tmp_path.iterdir()] == ["filler"]

        make_room()

        assert is_whole(made(tmp_path / "ledger.db"))


# ----- a disk that fails to sync


class FailingFile(apsw.VFSFile):
    """A file whose sync fails as long as its disk says so."""

    def __init__(self, disk: FailingDisk, name: apsw.URIFilename | str | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.below, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802  (SQLite's name)
        if self._disk.fails:
            raise apsw.IOError("the disk did not sync")
        super().xSync(flags)


class FailingDisk(apsw.VFS):
    """A disk that can be told to fail."""

    fails = False

    def __init__(self) -> None:
        self.below = apsw.vfs_names()[0]
        super().__init__("failing", self.below, makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FailingFile:  # noqa: N802
        return FailingFile(self, name, flags)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


def test_a_sync_that_fails_leaves_the_write_unknown_and_the_store_usable(tmp_path, disk):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    assert tokens(store) == {"ann"}

    disk.fails = True
    assert store.swap(inserts([NEW, KEYS[0]], token="bob")) == [UNKNOWN, UNKNOWN]

    disk.fails = False
    [seen] = store.get([NEW])
    [reply] = store.swap(inserts([NEW], token="eve"))
    assert token(reply) == (seen.entry.token if seen.entry else "eve"), "asking again tells what came of it"
    assert tokens(store) == {"ann"}
    store.close()


def test_a_disk_that_works_is_not_told_to_fail(tmp_path, disk):
    assert is_whole(made(tmp_path / "ledger.db"))
