"""The two colours of a PostgreSQL connection, behind one face: statements leave in one pipeline.

One connection per process (and per event loop), opened at first use, dropped when it fails and opened
anew by the next call. It never repeats a statement by itself. Errors are sorted here, once: what certainly
was not done is Unreachable, what may have been done is Unanswered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from onefold.core.errors import Locked, Misconfigured, Unanswered, Unreachable
from onefold.drive import arun, run
from onefold.stores.postgresql.plan import Statement
from onefold.stores.postgresql.schema import prepare
from onefold.stores.shells import Clients, Row

OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": 5}
"""How connections are opened: every pipeline is a transaction of its own."""

_REFUSED = ("28", "3D", "42", "25006", "0A")
"""SQLSTATE prefixes of what no repetition mends: no entry, no database, no right, a read-only replica."""


class Link:
    """One blocking connection. Statements leave together; a pipeline is one transaction."""

    def __init__(self, connection: psycopg.Connection[Row], name: str) -> None:
        self.connection = connection
        self.name = name

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        with translated(self.name):
            with self.connection.pipeline():
                cursors = [self.connection.execute(sql, args or None) for sql, args in statements]
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


class AsyncLink:
    """The same, awaited."""

    def __init__(self, connection: psycopg.AsyncConnection[Row], name: str) -> None:
        self.connection = connection
        self.name = name

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        with translated(self.name):
            async with self.connection.pipeline():
                cursors = [await self.connection.execute(sql, args or None) for sql, args in statements]
            return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


class Client:
    """A blocking connection that is there when it is needed; shared by the threads of a process."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._url = url
        self._create = create
        self.name = named(url)
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._link: Link | None = None

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip and one transaction; return the rows of each."""
        if self._pid != os.getpid():
            _INHERITED.append(self._link)
            self._forget()
        with self._lock:
            link = self._link = self._link or self._connect()
            try:
                return link.execute_many(statements)
            except BaseException as error:
                self._drop(link, error)
                raise

    def close(self) -> None:
        with self._lock:
            if self._link is not None and self._pid == os.getpid():
                self._link.connection.close()
            self._link = None

    def _drop(self, link: Link, error: BaseException) -> None:
        """Let go of a connection that is of no more use: broken, or interrupted in the middle of a call."""
        if link.connection.closed or not isinstance(error, Exception):
            link.connection.close()
            self._link = None

    def _connect(self) -> Link:
        with unreached(self.name):
            connection = psycopg.connect(self._url, **OPTIONS)
        link = Link(connection, self.name)
        try:
            run(prepare(self._create, self.name), Clients(link))
        except BaseException:
            connection.close()
            raise
        return link


class AsyncClient:
    """The same, awaited; belongs to the event loop that first used it, and follows to the next."""

    def __init__(self, url: str, create: bool = True) -> None:
        self._url = url
        self._create = create
        self.name = named(url)
        self._loop: object = None
        self._link: AsyncLink | None = None

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip and one transaction; return the rows of each."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._link, self._lock = loop, None, asyncio.Lock()
        async with self._lock:
            link = self._link = self._link or await self._connect()
            try:
                return await link.execute_many(statements)
            except BaseException as error:
                await self._drop(link, error)
                raise

    async def close(self) -> None:
        if self._link is not None:
            await self._link.connection.close()
        self._link = None

    async def _drop(self, link: AsyncLink, error: BaseException) -> None:
        if link.connection.closed or not isinstance(error, Exception):
            await link.connection.close()
            self._link = None

    async def _connect(self) -> AsyncLink:
        with unreached(self.name):
            connection = await psycopg.AsyncConnection.connect(self._url, **OPTIONS)
        link = AsyncLink(connection, self.name)
        try:
            await arun(prepare(self._create, self.name), Clients(link))
        except BaseException:
            await connection.close()
            raise
        return link


_INHERITED: list[object] = []
"""Connections that came with a fork: closing one here would end the parent's session, so they are kept."""


def named(url: str) -> str:
    """Name a server for people: where it is, and no secrets."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise Misconfigured(
            "the store's postgresql:// URL cannot be read: check its host, port and options"
        ) from error
    return (
        f"postgresql at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    )


@contextmanager
def unreached(name: str) -> Iterator[None]:
    """Turn the errors of connecting into ours: nothing was asked yet."""
    try:
        yield
    except psycopg.Error as error:
        reason = _reason(error)
        if (
            (error.sqlstate or "").startswith(_REFUSED)
            or "authentication failed" in reason
            or "does not exist" in reason
        ):
            raise Misconfigured(f"{name} refuses the connection: {reason}") from None
        raise Unreachable(f"{name} cannot be reached: {reason}; nothing was asked") from None


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn the errors of asking into ours: refused for certain, or unanswered."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise Locked(f"{name}: another transaction holds the row; nothing was written") from error
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if not state or state.startswith(("08", "57P")):
            raise Unanswered(f"{name} was asked and did not answer: {_reason(error)}") from error
        if state.startswith(_REFUSED):
            raise Misconfigured(f"{name} refuses: {_reason(error)}") from error
        raise Unreachable(f"{name} could not do it: {_reason(error)}; nothing was written") from error


def _reason(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
