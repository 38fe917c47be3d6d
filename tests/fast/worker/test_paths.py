"""A relative path is fixed when it is given: beside onefold.toml, or in the folder of that moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from onefold.apps import candles, copytrade, messages
from onefold.apps.listings.__main__ import main as listings
from onefold.core.cursor import Cursor
from onefold.core.endpoints import Endpoint
from onefold.core.record import Record
from onefold.runtime import current
from onefold.runtime.commands import Ended
from onefold.sinks.bars import BarTable
from onefold.sinks.command import Command
from onefold.sources.replay import Replay
from onefold.tables import Database
from onefold.worker.configuration import Section, Value, nearest, struct
from onefold.worker.endpoints import Pool
from onefold.worker.file import File, located
from onefold.worker.settings import Live
from tests.fast.sinks.stage import put_one

TOML = """\
[apps.candles]
api_key = "env:KEY"
pairs = ["EUR/USD"]
since = "2025-10-08"

[apps.messages]
processor = "mail"
signals = "signals.jsonl"
command = ["./send", "./an argument"]

[apps.copytrade]
leaders = ["0x0000000000000000000000000000000000000001"]

[apps.listings]
database = "sqlite:///flats.db"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Begin in a folder whose name needs escaping in a URL."""
    folder = tmp_path / "a home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def leave(home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Go on in a folder below, where none of the files is."""
    below = home / "below"
    below.mkdir()
    return lambda: monkeypatch.chdir(below)


def settings(kind: Any, name: str) -> Any:
    found = nearest()
    return struct(kind, found.apps[name], found.folder)


def test_a_table_stays_in_the_file_that_was_meant(home, leave):
    with closing(sqlite3.connect("shop.db")) as made:
        made.execute("CREATE TABLE flats (id INTEGER)")
    database = Database("sqlite:///shop.db")
    leave()

    with closing(database), database.transaction() as connection:
        assert database.columns(connection, "flats") == {"id": "INTEGER"}


def test_bars_stay_in_the_file_that_was_meant(home, leave):
    table = BarTable("sqlite:///bars.db")
    leave()

    with closing(table):
        table.write([])

    assert (home / "bars.db").exists()
    assert not Path("bars.db").exists()


def test_lines_are_read_from_the_file_that_was_meant(home, leave):
    (home / "signals.jsonl").write_text('{"id": "a"}\n')
    source = Replay("signals.jsonl", id="id")
    leave()

    async def first() -> list[str]:
        async for page in source.read(Cursor()):
            return [record.id for record in page.records]
        return []

    assert anyio.run(first) == ["a"]


def test_a_program_is_the_one_that_was_meant(home, leave, monkeypatch):
    started: list[Path] = []

    async def command(program: Sequence[str], *_: object) -> Ended:
        started.append(Path(program[0]))
        return Ended(0, "sent")

    monkeypatch.setattr(current(), "command", command)
    sink = Command(["./send"])
    leave()

    assert put_one(sink, Record("1", {}, 1))["said"] == "sent"
    assert started == [home / "send"]


def test_orders_on_paper_stay_in_the_file_that_was_meant(home, leave):
    exchange = copytrade.orders.Paper(Path("paper.db"))
    leave()

    anyio.run(exchange.find, "none")

    assert (home / "paper.db").exists()


def test_the_secret_address_of_an_endpoint_is_read_from_the_folder_of_the_start(home, leave):
    (home / "node").write_text("wss://node.example/v2")
    pool = Pool("nodes", ["file:node"], private=True)
    leave()

    assert anyio.run(pool._checked, Endpoint("file:node")) == "wss://node.example/v2"


def test_defaults_and_settings_are_beside_the_file_that_configures_them(home, leave, monkeypatch):
    monkeypatch.setenv("KEY", "12345678")
    (home / "onefold.toml").write_text(TOML)
    leave()

    bars = settings(candles.Settings, "candles").bars
    said = settings(messages.Settings, "messages")
    paper = settings(copytrade.Settings, "copytrade").paper

    assert bars == f"sqlite:///{str(home).replace(' ', '%20')}/bars.db"
    assert located(paper) == home / "copytrade-paper.db"
    assert located(said.signals) == home / "signals.jsonl"
    assert located(said.command[0]) == home / "send"
    assert said.command[1] == "./an argument"
    # The cursor of a source is stored under the text that was written, on whatever machine it is.
    assert list(messages.pipelines(said, Live()).sources) == ["mail from signals.jsonl"]


def test_without_a_configuration_defaults_are_in_the_folder_of_the_start(home, leave):
    given = Section("apps.copytrade", {"leaders": Value([f"0x{1:040}"], "a test")})
    paper = struct(copytrade.Settings, given, nearest().folder).paper
    leave()

    assert located(paper) == home / "copytrade-paper.db"
    assert located("other.db") == home / "below" / "other.db"
    assert located(File("third.db")) == home / "below" / "third.db"


def test_the_tables_of_listings_are_made_in_the_file_of_the_configuration(home, leave):
    (home / "onefold.toml").write_text(TOML)
    leave()

    assert listings(["--apply"]) == 0

    assert (home / "flats.db").exists()
    assert not Path("flats.db").exists()


def trusted(address: Any) -> Any:
    return address.settings["tlsCAFile"]


@pytest.mark.parametrize(
    ("library", "backend", "url", "read"),
    [
        ("redis", "redis.address", "rediss://db?ca=ca.pem", lambda at: at.settings["ssl_ca_certs"]),
        ("pymysql", "mariadb.address", "mariadb://db/x?ca=ca.pem", lambda at: at.files[0]),
        ("pymongo", "mongodb.address", "mongodb://db/?tlsCAFile=ca.pem", trusted),
        (
            "pymongo",
            "mongodb.address",
            "mongodb+srv://a.b/?tlsCAFile=ca.pem",
            lambda at: at.settings["tlsCAFile"],
        ),
    ],
)
def test_certificates_are_those_that_were_meant(home, library, backend, url, read):
    pytest.importorskip(library, reason=f"{library} is not installed: it comes with the test servers")
    from importlib import import_module

    (home / "ca.pem").touch()

    assert read(import_module(f"onefold.stores.{backend}").address(url)) == str(home / "ca.pem")


def test_certificates_of_a_postgresql_are_those_that_were_meant(home):
    pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")
    from onefold.stores.postgresql.waiting import parameters

    told = parameters("postgresql://db/x?sslmode=require&sslrootcert=ca.pem")

    assert told["sslrootcert"] == str(home / "ca.pem")
