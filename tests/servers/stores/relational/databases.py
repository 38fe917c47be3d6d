"""PostgreSQL and MariaDB in one set of words, for tests that ask the same of both.

Only what the servers call differently stands here. It asserts nothing; where the answers differ, too, each
store has a test of its own in its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import pytest

from tests.launchers.server import Launched
from tests.servers.stores.callers import Site, Sql
from tests.servers.stores.words import at


class Database(Protocol):
    """A kind of server, and its own words."""

    name: str
    library: str
    """Whose connections look at the database from outside."""
    who: str
    """Gives the number of a session."""
    end: str
    """Ends the session of a number."""
    sessions: str
    """Counts those of the store; it is opened by a URL that was `watched`."""
    waiting: str
    """Counts those of the store that wait for the table."""
    tables: str
    """Names the tables that are there."""
    lock: str
    unlock: str
    """Keep everybody from the table of entries."""
    making: str
    made: str
    """Begin and end what one does at a time: making the tables."""
    waiting_to_make: str
    hurry: str
    """Lets a session wait for a row only for a moment."""
    settle: bytes
    """Words in what settles a claim, and in nothing else."""
    guest: str
    """A user of `guests`, as it is written in a grant."""

    def watched(self, url: str) -> str:
        """Change a URL so that the sessions that it opens can be counted."""

    def home(self, server: Launched) -> str:
        """Give the URL of an empty place in a server that was just launched."""

    def guests(self, url: str, sql: Sql) -> Iterator[str]:
        """Lend the URL of a user who may look into the place, and nothing else."""


class Postgresql:
    name = "postgresql"
    library = "psycopg"
    who = "SELECT pg_backend_pid()"
    end = "SELECT pg_terminate_backend({}, 5000)"
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'watched'"
    waiting = f"{sessions} AND wait_event_type = 'Lock'"
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    lock = "LOCK TABLE onefold_entries IN ACCESS EXCLUSIVE MODE"
    unlock = "ROLLBACK"
    making = f"SELECT pg_advisory_lock({0x6F6E65666F6C64})"
    made = f"SELECT pg_advisory_unlock({0x6F6E65666F6C64})"
    waiting_to_make = f"{sessions} AND wait_event = 'advisory'"
    hurry = "SET lock_timeout = '50ms'"
    settle = b"UPDATE onefold_entries"
    guest = "guest_of_onefold"

    def watched(self, url: str) -> str:
        return url.replace("?", "?application_name=watched&", 1)

    def home(self, server: Launched) -> str:
        return server.url

    def guests(self, url: str, sql: Sql) -> Iterator[str]:
        [[schema]] = sql("SELECT current_schema()")
        sql(f"DROP ROLE IF EXISTS {self.guest}")
        sql(f"CREATE ROLE {self.guest} LOGIN PASSWORD 'only-for-guests'")
        sql(f"GRANT USAGE ON SCHEMA {schema} TO {self.guest}")
        yield at(url, user=self.guest, password="only-for-guests")
        sql(f"DROP OWNED BY {self.guest}")
        sql(f"DROP ROLE {self.guest}")


class Mariadb:
    name = "mariadb"
    library = "pymysql"
    who = "SELECT CONNECTION_ID()"
    end = "KILL {}"
    sessions = (
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    )
    waiting = f"{sessions} AND state LIKE 'Waiting for table%'"
    tables = "SHOW TABLES"
    lock = "LOCK TABLES onefold_entries WRITE"
    unlock = "UNLOCK TABLES"
    making = "SELECT GET_LOCK(CONCAT('onefold ', MD5(DATABASE())), 0)"
    made = "SELECT RELEASE_LOCK(CONCAT('onefold ', MD5(DATABASE())))"
    waiting_to_make = f"{sessions} AND state = 'User lock'"
    hurry = "SET SESSION innodb_lock_wait_timeout = 0"
    settle = b"entry.state = 'done'"
    guest = "guest@'%'"

    def watched(self, url: str) -> str:
        return url

    def home(self, server: Launched) -> str:
        with Site(self.library, server.url).sql() as sql:
            sql("CREATE DATABASE home")
        return at(server.url, path="/home")

    def guests(self, url: str, sql: Sql) -> Iterator[str]:
        [[database]] = sql("SELECT DATABASE()")
        sql(f"CREATE OR REPLACE USER {self.guest} IDENTIFIED BY 'only-for-guests'")
        sql(f"GRANT SHOW VIEW ON {database}.* TO {self.guest}")
        yield at(url, user="guest", password="only-for-guests")
        sql(f"DROP USER {self.guest}")


DATABASES: dict[str, Database] = {one.name: one for one in (Postgresql(), Mariadb())}


def ledgers(database: Database) -> ModuleType:
    """Return the stores of either colour on a database; its client is imported with them."""
    return import_module(f"tests.servers.stores.{database.name}.ledgers")


def on_each(names: str, **rows: Sequence[Any]) -> pytest.MarkDecorator:
    """Give each database rows of its own, where the answers are told in other words or numbers."""
    params = [
        pytest.param(name, *(row if isinstance(row, tuple) else [row]), marks=pytest.mark.store(name))
        for name, own in rows.items()
        for row in own
    ]
    return pytest.mark.parametrize(f"database, {names}", params, indirect=["database"])
