"""A SQLite file that another process or another user holds, fills or forbids."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onefold.core.errors import OnefoldError
from onefold.core.key import Key
from onefold.ledger import Ledger
from onefold.stores.sqlite import SqliteStore
from tests.fast.stores.sqlite.ledgers import NEW, inserts, is_whole, made, tokens
from tests.fast.stores.sqlite.test_files import cut
from tests.processes.stores.sqlite.neighbours import FORKING, as_nobody, in_child

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.filterwarnings(FORKING)]


def test_an_empty_file_is_waited_for_while_somebody_fills_it(tmp_path):
    other, path = made(tmp_path / "other.db"), tmp_path / "ledger.db"
    path.touch()
    store = SqliteStore(path)
    found: list[set[str | None]] = []
    reader = threading.Thread(target=lambda: found.append(tokens(store)))
    reader.start()
    reader.join(0.05)
    assert reader.is_alive(), "it waits"

    os.replace(other, path)
    reader.join()

    assert found == [{"ann"}]


def test_a_file_that_was_cut_short_under_its_log_is_refused_and_not_written_over(tmp_path):
    store = SqliteStore(made(tmp_path / "ledger.db"))
    store.swap(inserts([NEW]))
    copy = tmp_path / "copy.db"
    shutil.copy(store.path, copy)
    shutil.copy(f"{store.path}-wal", f"{copy}-wal")
    cut(copy, 4096 * 3)

    with pytest.raises(OnefoldError):
        tokens(SqliteStore(copy))


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that users without rights can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="onefold-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o700)


def answer(act: Callable[[SqliteStore], object], path: Path) -> tuple[str, str]:
    """Say how a store answers a user without rights: with which error and sentence."""

    def asked() -> tuple[str, str]:
        try:
            act(SqliteStore(path, lock_timeout=0.05))
        except Exception as error:
            return type(error).__name__, str(error)
        return "no error", ""

    return as_nobody(asked)


def write(store: SqliteStore) -> object:
    return store.swap(inserts([NEW]))


def test_a_file_that_may_not_be_written_can_be_read_and_a_write_is_refused(shared_folder):
    path = made(shared_folder / "ledger.db")
    path.chmod(0o444)

    assert answer(write, path) == (
        "Misconfigured",
        f"{path} cannot be written: the file or its folder is read-only",
    )
    assert answer(tokens, path) == ("no error", "")
    assert is_whole(path)


def test_a_folder_that_may_not_be_written_is_told(shared_folder):
    path = made(shared_folder / "ledger.db")
    path.chmod(0o666)
    shared_folder.chmod(0o555)

    assert answer(write, path) == (
        "Misconfigured",
        f"{path} cannot be written: the file or its folder is read-only",
    )
    shared_folder.chmod(0o755)
    assert is_whole(path)


def test_a_file_that_may_not_be_read_is_told(shared_folder):
    path = made(shared_folder / "ledger.db")
    path.chmod(0o000)

    assert answer(tokens, path) == ("Misconfigured", f"{path} cannot be opened: Permission denied")
    path.chmod(0o644)
    assert is_whole(path)


def test_a_folder_in_which_nothing_may_be_made_is_told(shared_folder):
    shared_folder.chmod(0o555)
    path = shared_folder / "ledger.db"

    assert answer(write, path) == ("Misconfigured", f"{path} cannot be opened: Permission denied")


def test_a_folder_that_may_not_be_entered_is_told(shared_folder):
    path = made(shared_folder / "ledger.db")
    shared_folder.chmod(0o000)

    assert answer(write, path) == ("Misconfigured", f"{path} cannot be opened: Permission denied")


def test_a_child_that_changes_its_folder_uses_its_parents_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "daemon").mkdir()
    ledger = Ledger("sqlite:///onefold.db")

    def charge() -> str:
        os.chdir("daemon")
        return ledger.call(Key("charges", 1), int).state

    assert [ledger.call(Key("charges", 1), int).state, in_child(charge)] == ["ran", "done"]
