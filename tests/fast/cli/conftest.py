"""Where the tests of the command happen: an empty folder, nobody's settings, an operator called ann."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold import Ledger
from tests.fast.cli.stage import Cli, ledger


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture
def book() -> Iterator[Ledger]:
    """The ledger in ./onefold.db; its clock stands at the first moment of 2026."""
    book = ledger()
    yield book
    book.close()
