"""Every command's help has an example that works, and the reference is made from that help."""

import re
import shlex
from pathlib import Path

import pytest

from onefold import Key, Ledger
from onefold.cli.codes import MEANING, Code
from onefold.cli.reference import pages, reference
from onefold.core.documents import named, save
from onefold.core.tiles import Series
from onefold.drive import Ports, run
from onefold.stores.sqlite import SqliteStore
from onefold.worker.coverage import Noted, note
from tests.checkout import ROOT
from tests.fast.cli.shop import open_shop
from tests.fast.cli.stage import Cli, failed, in_doubt, ledger

PAGE = ROOT / "docs/reference/commands.md"
PAGES = dict(pages())
DEMO = "onefold demo"
"""It kills processes: its example is tested in tests/processes/cli."""


def examples(help_text: str) -> list[str]:
    return re.findall(r"^ +Example:\n +(onefold .+)$", help_text, re.M)


@pytest.mark.parametrize("path", PAGES)
def test_the_help_of_every_command_has_one_example(path: str):
    [example] = examples(PAGES[path])

    assert f"{example} ".startswith(f"{path} ")


@pytest.fixture
def shop(here: Path, cli: Cli) -> Path:
    """A folder in which a worker ran, with a ledger that has something of everything."""
    open_shop(here)
    assert cli("run", "prices", "--once").exit_code == Code.FINE
    assert cli("settings", "put", "whales.subscribers", "subscribers.json").exit_code == Code.FINE
    store = SqliteStore("onefold.db")
    gap = {
        "pipeline": "prices",
        "source": "feed",
        "since": 3,
        "until": 5,
        "reason": "it reaches back no further",
    }
    run(save(named("gaps", "prices", "feed", "5"), "t", lambda stands: gap), Ports(store))
    run(note(Noted(Series("bars", "EURUSD", 3600), 0, 86400, 60)), Ports(store))
    store.close()
    return here


@pytest.mark.store("sqlite")
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("path", [path for path in PAGES if path != DEMO])
def test_the_example_of_every_command_works(cli: Cli, path: str):
    book = ledger()
    (failed if path == "onefold retry" else in_doubt)(book, Key("charges", "A-17"))
    book.close()
    [example] = examples(PAGES[path])

    asks = path.split()[-1] in ("resolve", "retry", "set", "close", "put")
    result = cli(*shlex.split(example)[1:], *(["-y"] if asks else []))

    assert result.exit_code in (Code.FINE, Code.PERSON), result.output
    assert result.stdout


def test_an_example_that_is_missing_would_be_found():
    assert examples("Usage: onefold x\n\n  Does things.\n") == []


def test_the_reference_is_current():
    assert PAGE.read_text("utf-8") == reference(), (
        "run: python -m onefold.cli.reference > docs/reference/commands.md"
    )


def test_the_reference_names_every_command_and_every_exit_code():
    assert set(MEANING) == set(Code)
    assert {"onefold status", "onefold store purge", "onefold doctor"} <= PAGES.keys()
    for path in PAGES:
        assert f"## `{path}`" in reference()


@pytest.mark.parametrize("path", PAGES)
def test_every_command_takes_the_shared_options(path: str):
    for option in ("--store URL", "--json", "-y, --yes", "--debug", "-h, --help"):
        assert option in PAGES[path]


def test_a_command_alone_shows_its_help(cli: Cli):
    assert cli().exit_code == Code.USAGE
    assert "Commands:" in cli().stderr
    assert cli("--help").exit_code == Code.FINE
    assert cli("store", "-h").exit_code == Code.FINE


@pytest.mark.store("sqlite")
@pytest.mark.parametrize(
    "words",
    [
        ["--json", "--store", "sqlite:///onefold.db", "why", "charges", "1"],
        ["why", "--json", "charges", "--store", "sqlite:///onefold.db", "1"],
        ["--store", "sqlite:///onefold.db", "why", "charges", "1", "--json"],
        ["--json", "store", "--store", "sqlite:///onefold.db", "purge", "-y"],
        ["-y", "store", "--json", "purge", "--store", "sqlite:///onefold.db"],
    ],
)
def test_shared_options_are_accepted_anywhere(cli: Cli, book: Ledger, words: list[str]):
    in_doubt(book, Key("charges", 1))

    result = cli(*words)

    assert result.exit_code in (Code.FINE, Code.PERSON)
    assert result.stdout.startswith("{")
