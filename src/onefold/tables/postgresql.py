"""Tables in PostgreSQL, through `psycopg`. A lock is waited for as long as for any other database."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from onefold.core.errors import Locked, Unreachable
from onefold.core.redaction import ESCAPED
from onefold.core.terms import Seconds
from onefold.core.transport import verifying
from onefold.tables import Row

Connection = psycopg.Connection[Any]

_LOCKED = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)

_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)

_INDEX = (
    "SELECT attname FROM pg_index "
    "CROSS JOIN LATERAL unnest(indkey) WITH ORDINALITY AS place (number, turn) "
    "LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = place.number AND attnum > 0 "
    "WHERE indexrelid = to_regclass(%s) ORDER BY turn"
)


class Postgresql:
    """PostgreSQL, behind the one face."""

    def connect(self, url: str, patience: Seconds) -> Connection:
        given = _verifying(_parameters(url))
        given.setdefault("connect_timeout", "10")
        # Times are compared as texts and numbers of UTC: nobody's own zone may show in them.
        options = f"{given.get('options') or ''} -c lock_timeout={int(patience * 1000)} -c TimeZone=UTC"
        connection: Connection = psycopg.connect(**{**given, "options": options.strip()})
        return connection

    def begin(self, connection: Connection, write: bool) -> None:
        connection.execute("SELECT 1")  # the driver begins with the first statement

    def run(self, connection: Connection, sql: str, args: Sequence[Any]) -> tuple[list[str], list[Row]]:
        cursor = connection.execute(_placed(sql), args)
        if cursor.description is None:
            return [], []
        return [column.name for column in cursor.description], [tuple(row) for row in cursor.fetchall()]

    def run_many(self, connection: Connection, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        connection.cursor().executemany(_placed(sql), rows)

    def columns(self, connection: Connection, table: str) -> dict[str, str]:
        quoted = ".".join(f'"{part}"' for part in table.split("."))
        return dict(connection.execute(_COLUMNS, (quoted,)).fetchall())

    def index(self, connection: Connection, table: str, name: str) -> list[str | None]:
        quoted = ".".join(f'"{part}"' for part in (*table.split(".")[:-1], name))
        return [column for (column,) in connection.execute(_INDEX, (quoted,)).fetchall()]

    def commit(self, connection: Connection) -> None:
        connection.commit()

    def roll_back(self, connection: Connection) -> None:
        connection.rollback()

    def close(self, connection: Connection) -> None:
        with suppress(psycopg.Error):
            connection.close()

    @contextmanager
    def translating(self) -> Iterator[None]:
        try:
            yield
        except _LOCKED as error:
            raise Locked("rows were being written by another for too long; nothing was written") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            words = str(error).strip().splitlines() or ["it is gone"]
            raise Unreachable(f"the database did not answer: {words[0]:.200}") from error


def _parameters(url: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(url))
    except (psycopg.Error, UnicodeError):
        # Not told why: the driver quotes the part that it cannot read, which may be of the password.
        raise Unreachable(
            f"the postgresql database was not reached: its URL cannot be read. Check host, port and options, "
            f"and {ESCAPED}"
        ) from None


def _verifying(given: Mapping[str, Any]) -> dict[str, Any]:
    own = (os.environ.get("PGSSLROOTCERT", ""), os.path.expanduser("~/.postgresql/root.crt"))
    return verifying(given, own, ssl.get_default_verify_paths().cafile, os.path.isfile)


def _placed(sql: str) -> str:
    """Write the places of values as the driver wants them; checked names hold no question mark."""
    return sql.replace("?", "%s")


DRIVER = Postgresql()
