"""Connections that do not wait for ever: a server that is silent for too long counts as gone.

A network that swallows everything gives no error by itself. What was asked when patience ends may have been
done; the connection is of no more use then, because its answers would come to the wrong questions.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from onefold.core.errors import Misconfigured
from onefold.core.redaction import ESCAPED, check_login
from onefold.core.transport import Protection, verifying
from onefold.stores.shells import Row

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds without an answer after which a connection is given up."""

STOPPING = 1.0
"""Seconds that a server is given to stop what an interrupted call has asked for."""

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


_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile", "servicefile")


def parameters(url: str) -> dict[str, Any]:
    """Say how a connection is opened: what the URL says comes first. Every pipeline is a transaction."""
    check_login(url, "the store's postgresql:// URL")
    try:
        given = conninfo_to_dict(url)
        readable = "@" not in str(given.get("host", "")) and _is_port(str(given.get("port", "1")))
    except (psycopg.Error, UnicodeError):
        readable = False
    if not readable:
        # Not told which part: a password that is not escaped ends up in any of them.
        raise Misconfigured(
            f"the store's postgresql:// URL cannot be read: check host, port and options, and {ESCAPED}"
        ) from None
    return {**_DEFAULTS, **_placed(_verifying(given)), "autocommit": True}


def _placed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Name files by their whole paths: the process may change its folder before it connects again."""
    files = {name: given[name] for name in _FILES if given.get(name) not in (None, "", "system")}
    return {**given, **{name: os.path.abspath(file) for name, file in files.items()}}


def _verifying(given: Mapping[str, Any]) -> dict[str, Any]:
    own = (os.environ.get("PGSSLROOTCERT", ""), os.path.expanduser("~/.postgresql/root.crt"))
    return verifying(given, own, ssl.get_default_verify_paths().cafile, os.path.isfile)


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


def protected(connection: Connection) -> tuple[str, Protection]:
    """Say to which host a connection leads, and how it is protected: `prefer` alone decides nothing."""
    handle = connection.pgconn
    host = (handle.hostaddr or handle.host).decode(errors="replace")
    if not handle.ssl_in_use:
        return host, "plain"
    mode = next((option.val for option in handle.info if option.keyword == b"sslmode"), None)
    return host, "verified" if mode == b"verify-full" else "encrypted"


class Connection(psycopg.Connection[Row]):
    """A blocking connection with patience."""

    patience = PATIENCE

    def wait(self, gen: Any, interval: float = LOOK_UP, *args: Any, **options: Any) -> Any:
        steps = _within(gen, self.patience)
        try:
            return waiting.wait(steps, self.pgconn.socket, LOOK_UP, *args, **options)
        except _Silent as silent:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(silent)) from None
        except BaseException as error:
            if not isinstance(error, Exception):
                self._give_up()
            raise

    def _give_up(self) -> None:
        """Stop what the server still does for an interrupted call, so that it holds no rows, and close.

        The driver's own `wait` would read on after the interrupt. In a pipeline it has lost count of the
        answers by then, and raises an IndexError in place of the interrupt.
        """
        try:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=STOPPING)
        finally:
            self.pgconn.finish()


class AsyncConnection(psycopg.AsyncConnection[Row]):
    """The same, awaited."""

    patience = PATIENCE

    async def wait(self, gen: Any, interval: float = LOOK_UP, *args: Any, **options: Any) -> Any:
        steps = _within(gen, self.patience)
        try:
            return await waiting.wait_async(steps, self.pgconn.socket, LOOK_UP, *args, **options)
        except _Silent as silent:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(silent)) from None
        except BaseException as error:
            if not isinstance(error, Exception):
                await self._give_up()
            raise

    async def _give_up(self) -> None:
        try:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    await self.cancel_safe(timeout=STOPPING)
        finally:
            self.pgconn.finish()


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
