"""The two colours of a MariaDB connection, behind one face: statements leave in one message.

One connection per process (and per event loop), opened at first use, dropped when it fails and opened anew by
the next call. It never repeats a statement by itself, and never waits for ever.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiomysql
import pymysql
from pymysql.constants import CLIENT

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered
from onefold.drive import arun, run
from onefold.stores.homes import OfLoop, OfProcess
from onefold.stores.mariadb.address import SYSTEM, Address, address
from onefold.stores.mariadb.errors import NO_TLS, asking, connecting
from onefold.stores.mariadb.plan import COMMIT, Statement
from onefold.stores.mariadb.schema import settle_in
from onefold.stores.shells import Clients, Row

BEHAVIOUR: dict[str, Any] = {"client_flag": CLIENT.MULTI_STATEMENTS, "autocommit": None}
"""How connections behave: many statements in a message; the rest is set by `settle_in`.

Never add CLIENT.FOUND_ROWS: a claim that met an existing row would count as written.
"""


class Link:
    """One blocking connection. Statements leave together; the server stops at the first that fails."""

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.name = name

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        replies: list[list[Row]] = []
        text = "; ".join(statement.text for statement in statements)
        try:
            with asking(self.name):
                self.connection.query(text)
                replies.append(_rows(self.connection))
                while _has_more(self.connection):
                    self.connection.next_result()
                    replies.append(_rows(self.connection))
        except OnefoldError as error:
            self._undo(error)
            raise judged(error, statements[len(replies)]) from error.__cause__
        return replies

    def _undo(self, error: OnefoldError) -> None:
        """End the transaction that an error left open; where that fails, the connection ends, and it too."""
        try:
            if not isinstance(error, Unanswered):
                self.connection.rollback()
        except (pymysql.MySQLError, OSError):
            self.close(goodbye=False)

    def is_stale(self) -> bool:
        """Say whether the server has closed the connection, or says what nobody asked for."""
        return _can_read(self.connection._sock)

    def close(self, goodbye: bool) -> None:
        """Close the connection. Without a goodbye, nothing follows a message that may be half sent."""
        if goodbye:
            with suppress(pymysql.MySQLError, OSError):
                self.connection.close()
        self.connection._force_close()


class AsyncLink:
    """The same, awaited."""

    def __init__(self, connection: Any, name: str, timeout: float) -> None:
        self.connection = connection
        self.name = name
        self._timeout = timeout

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        replies: list[list[Row]] = []
        text = "; ".join(statement.text for statement in statements)
        try:
            with asking(self.name):
                await self._exchange(text, replies)
        except OnefoldError as error:
            await self._undo(error)
            raise judged(error, statements[len(replies)]) from error.__cause__
        return replies

    async def _exchange(self, text: str, replies: list[list[Row]]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self.connection.query(text)
                replies.append(_rows(self.connection))
                while _has_more(self.connection):
                    await self.connection.next_result()
                    replies.append(_rows(self.connection))
        except TimeoutError:
            raise TimeoutError(f"no answer within {self._timeout:g} s") from None

    async def _undo(self, error: OnefoldError) -> None:
        try:
            if not isinstance(error, Unanswered):
                async with asyncio.timeout(self._timeout):
                    await self.connection.rollback()
        except (pymysql.MySQLError, OSError):
            self.close()

    def is_stale(self) -> bool:
        """The same; the event loop may not have had the time to hear of it."""
        if self.connection.closed or self.connection._reader.at_eof():
            return True
        return _can_read(self.connection._writer.get_extra_info("socket"))

    def close(self) -> None:
        """Close without a farewell: nothing is awaited, so that a cancelled call can do so too."""
        self.connection.close()

    def abandon(self) -> None:
        """Let go of a connection of another event loop, which may be closed, so that it closes nothing."""
        if not self.connection.loop.is_closed():
            self.connection.loop.call_soon_threadsafe(self.close)
        elif writer := self.connection._writer:
            with suppress(RuntimeError):
                writer.close()
            writer.transport._call_connection_lost(None)
            self.connection._writer = None


class Client(OfProcess[Link]):
    """A blocking connection that is there when it is needed; shared by the threads of a process."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self._create = create
        self.name = self.address.name
        super().__init__()

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip; return the rows of each."""
        self._leave_parent()
        with self._lock:
            if self._busy:
                self._drop()  # the last call was interrupted, and so was what follows it
            try:
                self._busy = True
                replies = (self._living() or self._connect()).execute_many(statements)
            except BaseException as error:
                if _is_broken(error):
                    self._drop()
                self._busy = False
                raise
            self._busy = False
            return replies

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            self._drop()

    def _living(self) -> Link | None:
        if self._link is not None and (not self._link.connection.open or self._link.is_stale()):
            self._drop()
        return self._link

    def _drop(self) -> None:
        # Forgotten only when it is closed: if another exception comes before, the next call closes it.
        if self._link is not None:
            self._link.close(goodbye=not self._busy)
        self._link = None
        self._busy = False

    def _connect(self) -> Link:
        at = self.address
        how = {"ssl": _context(at)} if at.files else {"ssl_disabled": True}
        waiting = {"connect_timeout": at.patience, "read_timeout": at.timeout, "write_timeout": at.timeout}
        how = {**at.settings, **BEHAVIOUR, **how, **waiting, "database": at.database}
        with connecting(self.name):
            link = self._link = Link(pymysql.connect(**how), self.name)
        try:
            run(settle_in(self._create, self.name), Clients(link))
        except BaseException:
            self._drop()
            raise
        return link


class AsyncClient(OfLoop[AsyncLink]):
    """The same, awaited; belongs to the event loop that first used it, and follows to the next."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self._create = create
        self.name = self.address.name
        super().__init__()

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip; return the rows of each."""
        self._come_home()
        async with self._lock:
            if self._busy:
                self._drop()
            try:
                self._busy = True
                replies = await (self._living() or await self._connect()).execute_many(statements)
            except BaseException as error:
                if _is_broken(error):
                    self._drop()
                self._busy = False
                raise
            self._busy = False
            return replies

    async def close(self) -> None:
        self._come_home()
        async with self._lock:
            self._drop()

    def _abandon(self, link: AsyncLink) -> None:
        link.abandon()

    def _living(self) -> AsyncLink | None:
        if self._link is not None and self._link.is_stale():
            self._drop()
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self._busy = False

    async def _connect(self) -> AsyncLink:
        at = self.address
        how = {"ssl": _context(at)} if at.files else {}
        with connecting(self.name):
            # The client's own limit ends when the socket is open, and the server may be silent then.
            async with asyncio.timeout(at.patience):
                connection = await _dialled(**at.settings, **BEHAVIOUR, **how, db=at.database)
        link = self._link = AsyncLink(connection, self.name, at.timeout)
        try:
            await arun(settle_in(self._create, self.name), Clients(link))
        except BaseException:
            self._drop()
            raise
        return link


class _Encrypted(aiomysql.Connection):  # type: ignore[misc]
    """An awaited connection that, where TLS is wanted, never logs in without it; the client's own would."""

    async def _request_authentication(self) -> None:
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise pymysql.OperationalError(NO_TLS, "SSL is required but the server doesn't support it")
        await super()._request_authentication()


async def _dialled(**how: Any) -> Any:
    """Open a connection; one that is given up half-way is closed, which the client itself leaves open."""
    connection = _Encrypted(**how)
    try:
        await connection._connect()
    except BaseException:
        connection.close()
        raise
    return connection


def judged(error: OnefoldError, statement: Statement) -> OnefoldError:
    """Say what an answer with an error means: only a commit that failed may have been done."""
    if statement != COMMIT or isinstance(error, Unanswered):
        return error
    return Unanswered(f"{error}; it was asked to commit, and may have done so")


# Of the two clients' cursors one asks the server for warnings by itself; their connections do not.


def _rows(connection: Any) -> list[Row]:
    """Return the rows of a statement; for one that returns none, a row with the number that it affected."""
    result = connection._result
    return [(result.affected_rows,)] if result.rows is None else list(result.rows)


def _has_more(connection: Any) -> bool:
    return bool(connection._result.has_next)


def _can_read(socket: Any) -> bool:
    ready = select.poll()
    ready.register(socket, select.POLLIN)
    return bool(ready.poll(0))


def _is_broken(error: BaseException) -> bool:
    """Say whether a connection is of no more use: broken, or interrupted in the middle of a call."""
    return isinstance(error, Unanswered) or not isinstance(error, Exception)


def _context(at: Address) -> ssl.SSLContext:
    authority, certificate, key = at.files
    try:
        context = ssl.create_default_context(cafile=None if authority == SYSTEM else authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise Misconfigured(f"the files for TLS to {at.name} cannot be used: {error}") from None
    return context
