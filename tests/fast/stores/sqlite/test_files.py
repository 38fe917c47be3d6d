"""Files that are no ledger, or no longer one: a typed error with a sentence, and the file left as it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from onefold.core.errors import Misconfigured, Unsettled
from onefold.core.key import Key
from onefold.ledger import AsyncLedger, Ledger
from onefold.stores.sqlite import SqliteStore
from tests.fast.stores.sqlite.ledgers import KEYS, NEW, inserts, is_whole, made

pytestmark = pytest.mark.store("sqlite")


def refused(path: Path | str, create: bool = True) -> str:
    """Say with which words a file is refused, for reading and for writing alike."""
    words = set()
    for act in (lambda store: store.get(KEYS[:1]), lambda store: store.swap(inserts([NEW]))):
        with pytest.raises(Misconfigured) as raised:
            act(SqliteStore(path, create=create, lock_timeout=0.05))
        words.add(str(raised.value))
    [word] = words
    return word


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("part", [0.9, 0.5, 0.1])
def test_a_file_that_was_cut_short_is_refused_and_left_alone(tmp_path, part):
    path = made(tmp_path / "ledger.db")
    cut(path, int(path.stat().st_size * part))
    before = path.read_bytes()

    assert "is cut short" in refused(path)
    assert "restore it from a backup" in refused(path, create=False)
    assert path.read_bytes() == before


def test_a_file_that_was_cut_in_its_first_bytes_is_no_database(tmp_path):
    path = made(tmp_path / "ledger.db")
    cut(path, 10)

    assert "is not an SQLite database" in refused(path)


def test_a_file_that_was_emptied_is_refused_and_not_taken_for_a_new_one(tmp_path):
    path = made(tmp_path / "ledger.db")
    cut(path, 0)

    assert "is empty (0 bytes), which a ledger never is" in refused(path)
    assert path.stat().st_size == 0


def test_a_backup_that_is_put_back_is_whole(tmp_path):
    path = made(tmp_path / "ledger.db")
    shutil.copy(path, tmp_path / "backup.db")
    cut(path, path.stat().st_size // 2)
    refused(path)

    shutil.copy(tmp_path / "backup.db", path)

    assert is_whole(path)


def test_a_file_with_scrambled_pages_is_refused_as_damaged(tmp_path):
    path = made(tmp_path / "ledger.db")
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(byte ^ 0x5A for byte in data[4096:])
    path.write_bytes(data)

    assert "is damaged (" in refused(path)


@pytest.mark.parametrize("content", [b"hello world" * 100, b"\x7fELF", b"SQLite format 2\0" * 99, b"\n"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    assert "is not an SQLite database: give another path" in refused(path)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_not_made_a_ledger_by_looking(tmp_path):
    path = tmp_path / "shop.db"
    shop = apsw.Connection(str(path))
    shop.execute("CREATE TABLE customers (name TEXT)")
    shop.close()

    assert "without a ledger in it" in refused(path, create=False)


def test_a_folder_is_refused(tmp_path):
    assert refused(tmp_path) == f"{tmp_path} cannot be opened: Is a directory"


def test_a_path_through_a_file_is_refused(tmp_path):
    path = made(tmp_path / "ledger.db") / "another.db"

    assert refused(path) == f"{path} cannot be opened: Not a directory"


def test_a_missing_file_is_not_created_where_that_was_not_wished(tmp_path):
    path = tmp_path / "ledger.db"

    assert refused(path, create=False) == f"{path} does not exist: there is no ledger to open"
    assert [*tmp_path.iterdir()] == []


def test_a_missing_folder_is_not_created(tmp_path):
    path = tmp_path / "nowhere" / "ledger.db"

    assert refused(path) == f"the folder {path.parent} does not exist: there is no ledger to open"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["", ":memory:", "a\0b"])
def test_a_name_that_names_no_file_is_refused_at_once(name):
    with pytest.raises(Misconfigured, match="names no file; a ledger in memory is memory:"):
        SqliteStore(name)


def test_a_name_that_is_too_long_is_refused(tmp_path):
    assert "File name too long" in refused(tmp_path / ("x" * 300))


def test_a_file_of_a_newer_onefold_is_refused_and_left_alone(tmp_path):
    path = made(tmp_path / "ledger.db")
    set_schema(path, "999")

    assert "was written by a newer Onefold (schema 999, this one knows 2)" in refused(path)
    assert "pip install -U onefold" in refused(path, create=False)
    set_schema(path, "2")
    assert is_whole(path)


def test_a_file_whose_schema_is_no_number_is_refused(tmp_path):
    path = made(tmp_path / "ledger.db")
    set_schema(path, "two")

    assert "gives the schema as 'two'" in refused(path)


def set_schema(path: Path, value: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE onefold_meta SET value = ? WHERE name = 'schema'", (value,))
    connection.close()


# ----- without the right to write


# ----- deleted, replaced, moved


def test_a_file_that_was_deleted_under_a_ledger_is_not_written_any_more(tmp_path):
    path = tmp_path / "ledger.db"
    charged: list[str] = []
    first = Ledger(f"sqlite:///{path}")
    first.call(Key("charges", "A-1"), lambda: charged.append("A-1"))
    path.unlink()
    second = Ledger(f"sqlite:///{path}")
    second.call(Key("charges", "A-2"), lambda: charged.append("A-2"))

    for ask in (
        lambda: first.call(Key("charges", "A-2"), lambda: charged.append("A-2")),
        lambda: first.look(Key("charges", "A-1")),
        lambda: list(first.entries("charges", "done")),
    ):
        with pytest.raises(Misconfigured) as raised:
            ask()
        assert str(raised.value) == (
            f"{path} was deleted or replaced while this process had it open; nothing was written: "
            "stop all processes that use it, put the original file back, then start them again"
        )
    assert charged == ["A-1", "A-2"]


def test_a_claim_that_was_held_when_the_file_went_is_not_reported_as_settled(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(f"sqlite:///{path}")

    with pytest.raises(Unsettled):
        ledger.call(Key("charges", "A-1"), path.unlink)


def test_a_file_that_is_put_back_is_used_again(tmp_path):
    path, away = tmp_path / "ledger.db", tmp_path / "away.db"
    ledger = Ledger(f"sqlite:///{path}")
    ledger.call(Key("charges", "A-1"), int)
    path.rename(away)
    with pytest.raises(Misconfigured, match="deleted or replaced"):
        ledger.call(Key("charges", "A-2"), int)
    away.rename(path)

    assert ledger.call(Key("charges", "A-2"), int).state == "ran"


def test_only_the_owner_may_read_a_new_file_and_its_log(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    store.swap(inserts([NEW]))

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_where_files_cannot_have_two_names_only_the_owner_may_read_it_too(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    store = SqliteStore(tmp_path / "ledger.db")
    store.swap(inserts([NEW]))

    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600


# ----- relative paths


@pytest.mark.parametrize("door", ["given", "environment", "default"])
def test_a_relative_path_is_resolved_when_the_ledger_is_created(door, tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)
    if door == "environment":
        monkeypatch.setenv("ONEFOLD_STORE", "sqlite:///onefold.db")
    ledgers = [Ledger("sqlite:///onefold.db" if door == "given" else None) for _ in range(2)]
    awaited = AsyncLedger("sqlite:///onefold.db" if door == "given" else None)

    async def charge() -> int:
        return 1

    states = [ledgers[0].call(Key("charges", 1), int).state]
    monkeypatch.chdir(there)
    states.append(ledgers[1].call(Key("charges", 1), int).state)

    async def main() -> None:
        states.append((await awaited.call(Key("charges", 1), charge)).state)
        await awaited.close()

    asyncio.run(main())

    assert states == ["ran", "done", "done"]
    assert [file.name for file in there.iterdir()] == []


def test_a_relative_path_in_a_deleted_folder_is_refused(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(Misconfigured, match="relative to a working directory that was deleted"):
        SqliteStore("ledger.db")
    assert Ledger(f"sqlite:///{tmp_path}/ledger.db").call(Key("charges", 1), int).state == "ran"
