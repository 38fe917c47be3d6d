"""What `doctor` makes of a ledger on a server, or of there being none: the same on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from tests.fast.cli.judging import by_name
from tests.fast.cli.stage import Cli, in_doubt
from tests.servers.stores.callers import Site
from tests.servers.stores.relational.databases import DATABASES


def collections(url: str) -> Sequence[Any]:
    from tests.servers.stores.mongodb.ledgers import Server

    with Server(url) as database:
        return list(database.list_collection_names())


def tables(name: str) -> Callable[[str], Sequence[Any]]:
    def look(url: str) -> Sequence[Any]:
        with Site(DATABASES[name].library, url).sql() as sql:
            return sql(DATABASES[name].tables)

    return look


CLIENTS = {"postgresql": "psycopg", "mariadb": "pymysql", "mongodb": "pymongo"}
FOUND = {"postgresql": tables("postgresql"), "mariadb": tables("mariadb"), "mongodb": collections}
"""Names what lies in a place, past the ledger."""


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in CLIENTS])
def server(request: pytest.FixtureRequest) -> str:
    client = CLIENTS[request.param]
    pytest.importorskip(client, reason=f"{client} is not installed: it comes with the test servers")
    return str(request.param)


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{server}_url"))


def test_what_is_parked_is_found(cli: Cli, url: str):
    with closing(Ledger(url)) as book:
        book.call(Key("charges", 1), lambda: None)
        before = cli("doctor", url).exit_code
        in_doubt(book, Key("charges", 2))

    assert (before, cli("doctor", url).exit_code) == (Code.FINE, Code.PERSON)


def test_a_database_without_a_ledger_is_left_without_one(cli: Cli, server: str, url: str):
    told = cli.json("doctor", url)

    assert told["code"] == Code.UNREACHABLE
    assert "has no ledger in it" in by_name(told)["reach"]["text"]
    assert list(FOUND[server](url)) == []
