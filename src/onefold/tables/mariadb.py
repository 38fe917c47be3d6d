"""Tables in MariaDB or MySQL, through `PyMySQL`. A lock is waited for as long as for any other database."""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.cursors import Cursor

from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.core.redaction import ESCAPED
from onefold.core.terms import Seconds
from onefold.tables import Row

FILES = ("ca", "cert", "key")
OPTIONS = ("timeout", "socket", *FILES)

LOCKED = (1205, 1213, 3572)
GONE = (2003, 2006, 2013, 2014, 1927, 4031)

_COLUMNS = (
    "SELECT column_name, column_type FROM information_schema.columns "
    "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position"
)

_INDEX = (
    "SELECT column_name FROM information_schema.statistics "
    "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s AND index_name = %s "
    "ORDER BY seq_in_index"
)


class Mariadb:
    """MariaDB, behind the one face."""

    def connect(self, url: str, patience: Seconds) -> Any:
        where, options = _where(url)
        how: dict[str, Any] = {"unix_socket": options["socket"]} if "socket" in options else {}
        if any(name in options for name in FILES):
            how["ssl"] = _encryption(options)  # then a server without TLS is refused
        return pymysql.connect(
            **where,
            **how,
            charset="utf8mb4",
            connect_timeout=10,
            read_timeout=_timeout(options),
            write_timeout=_timeout(options),
            init_command=_settings(math.ceil(patience)),
        )

    def begin(self, connection: Any, write: bool) -> None:
        """The server begins with the first statement; only see whether it is still there."""
        connection.ping(reconnect=False)

    def run(self, connection: Any, sql: str, args: Sequence[Any]) -> tuple[list[str], list[Row]]:
        with Cursor(connection) as cursor:
            cursor.execute(_placed(sql), tuple(args))
            names = [column[0] for column in cursor.description or ()]
            return names, [tuple(row) for row in cursor.fetchall()] if names else []

    def run_many(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with Cursor(connection) as cursor:
            cursor.executemany(_placed(sql), [tuple(row) for row in rows])

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        schema, _, name = table.rpartition(".")
        with Cursor(connection) as cursor:
            cursor.execute(_COLUMNS, (schema or None, name))
            return {str(one): str(kind) for one, kind in cursor.fetchall()}

    def index(self, connection: Any, table: str, name: str) -> list[str | None]:
        schema, _, own = table.rpartition(".")
        with Cursor(connection) as cursor:
            cursor.execute(_INDEX, (schema or None, own, name))
            return [column for (column,) in cursor.fetchall()]

    def commit(self, connection: Any) -> None:
        connection.commit()

    def roll_back(self, connection: Any) -> None:
        connection.rollback()

    def close(self, connection: Any) -> None:
        with suppress(pymysql.Error):
            connection.close()

    @contextmanager
    def translating(self) -> Iterator[None]:
        try:
            yield
        except pymysql.InterfaceError as error:
            raise Unreachable("the connection to the database is gone") from error
        except pymysql.OperationalError as error:
            number = error.args[0] if error.args else 0
            if number in LOCKED:
                raise Locked(
                    "rows were being written by another for too long; nothing was written"
                ) from error
            if number in GONE:
                raise Unreachable(f"the database did not answer: error {number}") from error
            raise


def _where(url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a URL as the store of this kind does; an option that nobody knows, nobody would keep."""
    try:
        split = urlsplit(url)
        port, options = split.port or 3306, dict(parse_qsl(split.query))
    except ValueError:
        raise Unreachable(
            f"the mariadb database was not reached: its URL cannot be read. Check host, port and options, "
            f"and {ESCAPED}"
        ) from None
    database = unquote(split.path.removeprefix("/"))
    if not database or "/" in database:
        raise Misconfigured("the mariadb:// URL names no database: write mariadb://user@host:3306/database")
    if strange := next((name for name in options if name not in OPTIONS), None):
        raise Misconfigured(
            f"the mariadb:// URL has an option {strange!r:.40}; known are {', '.join(OPTIONS)}"
        )
    where = {"host": split.hostname or "localhost", "port": port, "database": database}
    return {
        **where,
        "user": unquote(split.username or ""),
        "password": unquote(split.password or ""),
    }, options


def _encryption(options: dict[str, str]) -> ssl.SSLContext:
    authority = options.get("ca")
    context = ssl.create_default_context(cafile=None if authority in (None, "system") else authority)
    if "cert" in options:
        context.load_cert_chain(options["cert"], options.get("key"))
    return context


def _timeout(options: dict[str, str]) -> float:
    return float(options.get("timeout", "30"))


def _settings(patience: int) -> str:
    waits = f"innodb_lock_wait_timeout = {patience}, lock_wait_timeout = {patience}"
    return f"SET {waits}, time_zone = '+00:00'"


def _placed(sql: str) -> str:
    """Write the places of values as the driver wants them; checked names hold no question mark."""
    return sql.replace("?", "%s")


DRIVER = Mariadb()
