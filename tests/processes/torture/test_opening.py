"""Whatever a killed worker leaves of the ledger's file, the next one opens it, and nothing in it is lost."""

import os
import shutil
from pathlib import Path

import pytest

from onefold import Key, Ledger
from onefold.core.errors import Misconfigured

pytestmark = pytest.mark.store("sqlite")

PAGES = slice(28, 32)
"""Where the header of an SQLite file says how many pages it has."""


def filled(folder: Path) -> Path:
    """Leave a ledger as a killed worker does: its last writes stand in the log only."""
    ledger = Ledger(f"sqlite:///{folder / 'alive.db'}")
    ledger.claim_many([Key("k", number) for number in range(300)])
    for name in os.listdir(folder):
        shutil.copy(folder / name, folder / name.replace("alive", "dead"))
    ledger.close()
    return folder / "dead.db"


def say_pages(file: Path, pages: int) -> None:
    content = bytearray(file.read_bytes())
    content[PAGES] = pages.to_bytes(4, "big")
    file.write_bytes(content)


def test_a_file_whose_log_was_being_copied_into_it_is_opened(tmp_path: Path):
    # A checkpoint writes the first page first, with the new length in it; who dies then leaves a file that
    # is shorter than it says, and a log that has the rest.
    file = filled(tmp_path)
    say_pages(file, pages=(tmp_path / "alive.db").stat().st_size // 4096)

    ledger = Ledger(f"sqlite:///{file}")

    assert sum(1 for _ in ledger.entries("k", "held")) == 300
    ledger.close()


def test_a_file_that_is_shorter_than_it_says_and_has_no_log_is_refused(tmp_path: Path):
    file = filled(tmp_path)
    file.with_name("dead.db-wal").unlink()
    say_pages(file, pages=1000)

    with pytest.raises(Misconfigured, match="cut short"):
        Ledger(f"sqlite:///{file}").look(Key("k", 1))


def test_a_ledger_that_is_being_made_leaves_nothing_but_the_file_and_its_log(tmp_path: Path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'new.db'}")
    ledger.look(Key("k", 1))
    ledger.close()

    assert os.listdir(tmp_path) == ["new.db"]
