"""Connections that do not wait for ever: a server that is silent for too long counts as gone.

A network that swallows everything gives no error by itself. What was asked when patience ends may have been
done; the connection is of no more use then, because its answers would come to the wrong questions.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from onefold.core.errors import Misconfigured
from onefold.stores.shells import Row

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds without an answer after which a connection is given up."""

LOOK_UP = 0.1
"""Seconds after which somebody who waits looks at the clock."""

_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 5,
    "client_encoding": "utf8",
    "application_name": "onefold",
    # A machine that vanished is noticed in about 15 seconds, not in the two hours of the system's default.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}


def parameters(url: str) -> dict[str, Any]:
    """Say how a connection is opened: what the URL says comes first. Every pipeline is a transaction."""
    try:
        given = conninfo_to_dict(url)
        readable = "@" not in str(given.get("host", "")) and _is_port(str(given.get("port", "1")))
    except (psycopg.Error, UnicodeError):
        readable = False
    if not readable:
        # Not told which part: a password that is not escaped ends up in any of them.
        raise Misconfigured(
            "the store's postgresql:// URL cannot be read: check host, port and options, "
            "and write @ : / ? # in a password as %40 %3A %2F %3F %23"
        ) from None
    return {**_DEFAULTS, **given, "autocommit": True}


def _is_port(text: str) -> bool:
    return all(part == "" or (part.isdecimal() and int(part) < 65536) for part in text.split(","))


def named(parameters: Mapping[str, Any]) -> str:
    """Name a server for people: where it is, and no secrets."""
    where = f"{parameters.get('host') or 'localhost'}:{parameters.get('port') or 5432}"
    return f"postgresql at {where}/{parameters.get('dbname') or ''}"


def has_rows(cursor: psycopg.Cursor[Row] | psycopg.AsyncCursor[Row]) -> bool:
    """Say whether a statement returned a result that can be fetched."""
    # The usual test is `cursor.description`, for which the driver makes an object per column at each call.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


class Connection(psycopg.Connection[Row]):
    """A blocking connection with patience."""

    patience = PATIENCE

    def wait(self, gen: Any, interval: float = LOOK_UP, *args: Any, **options: Any) -> Any:
        try:
            return super().wait(_within(gen, self.patience), LOOK_UP, *args, **options)
        except _Silent as silent:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(silent)) from None


class AsyncConnection(psycopg.AsyncConnection[Row]):
    """The same, awaited."""

    patience = PATIENCE

    async def wait(self, gen: Any, interval: float = LOOK_UP, *args: Any, **options: Any) -> Any:
        try:
            return await super().wait(_within(gen, self.patience), LOOK_UP, *args, **options)
        except _Silent as silent:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(silent)) from None


class _Silent(Exception):
    """Nothing was heard for too long."""


def _within(steps: Generator[Any, Any, T], patience: float) -> Generator[Any, Any, T]:
    """Follow the driver's steps, each of which waits for the socket, until patience ends."""
    until = time.monotonic() + patience
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise _Silent(f"no answer within {patience:g} s")
            wanted = steps.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
