"""Sync and async connections to PostgreSQL with one interface: several statements leave in one pipeline.

One connection per process (and per event loop), opened at first use, dropped when it fails and opened
anew by the next call. It never repeats a statement by itself, and never waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncCursor, Cursor

from onefold.core.transport import Protection
from onefold.drive import arun, run
from onefold.stores.homes import OfLoop, OfProcess
from onefold.stores.postgresql.errors import asking, connecting, sendable
from onefold.stores.postgresql.plan import Statement
from onefold.stores.postgresql.schema import settle_in
from onefold.stores.postgresql.waiting import (
    PATIENCE,
    AsyncConnection,
    Connection,
    has_rows,
    named,
    parameters,
    protected,
)
from onefold.stores.shells import Clients, Row


class Link:
    """One blocking connection. Several statements leave together; a pipeline is one transaction."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self._cursor = connection.cursor(binary=True)

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        sendable(statements)
        failed: list[BaseException] = []
        with asking(self.name):
            if len(statements) == 1:  # a transaction by itself, and cheaper than a pipeline
                return [self._execute(*statements[0])]
            try:
                with self.connection.pipeline():
                    cursors = self._send(statements, failed)
            except BaseException as error:
                raise failed[0] if failed else error  # noqa: B904
            return [cursor.fetchall() if has_rows(cursor) else [] for cursor in cursors]

    def _execute(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Send one statement on a cursor that is used again: making a new one takes as long as using it."""
        cursor = self._cursor
        cursor.execute(sql, args)
        rows = cursor.fetchall() if has_rows(cursor) else []
        if len(rows) > 1:
            # A cursor keeps its last result, which may be large.
            self._cursor = self.connection.cursor(binary=True)
        return rows

    def _send(self, statements: Sequence[Statement], failed: list[BaseException]) -> list[Cursor[Row]]:
        try:
            return [self.connection.execute(sql, args, binary=True) for sql, args in statements]
        except BaseException as error:
            # Without the end of its pipeline the server undoes what it has heard so far. Raised outside of
            # it, because the driver logs a warning about whatever is raised inside.
            self.connection.pgconn.finish()
            failed.append(error)
            return []


class AsyncLink:
    """The same, awaited."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self.connection = connection
        self.name = name
        self._cursor = connection.cursor(binary=True)

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        sendable(statements)
        failed: list[BaseException] = []
        with asking(self.name):
            if len(statements) == 1:
                return [await self._execute(*statements[0])]
            try:
                async with self.connection.pipeline():
                    cursors = await self._send(statements, failed)
            except BaseException as error:
                raise failed[0] if failed else error  # noqa: B904
            return [await cursor.fetchall() if has_rows(cursor) else [] for cursor in cursors]

    async def _execute(self, sql: str, args: Sequence[Any]) -> list[Row]:
        cursor = self._cursor
        await cursor.execute(sql, args)
        rows = await cursor.fetchall() if has_rows(cursor) else []
        if len(rows) > 1:
            self._cursor = self.connection.cursor(binary=True)
        return rows

    async def _send(
        self, statements: Sequence[Statement], failed: list[BaseException]
    ) -> list[AsyncCursor[Row]]:
        try:
            return [await self.connection.execute(sql, args, binary=True) for sql, args in statements]
        except BaseException as error:
            self.connection.pgconn.finish()
            failed.append(error)
            return []


class Client(OfProcess[Link]):
    """A blocking connection that is there when it is needed; shared by the threads of a process."""

    def __init__(self, url: str, create: bool = True, patience: float = PATIENCE) -> None:
        self._parameters = parameters(url)
        self._create = create
        self._patience = patience
        self.name = named(self._parameters)
        super().__init__()

    def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip and one transaction; return the rows of each."""
        self._leave_parent()
        with self._lock:
            if self._busy:
                self._drop()  # the last call was interrupted, and so was what follows it
            try:
                self._busy = True
                replies = (self._link or self._connect()).execute_many(statements)
            except Exception:
                self._keep_if_usable()
                raise
            except BaseException:
                self._drop()
                raise
            self._busy = False
            return replies

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            self._drop()

    def protection(self) -> tuple[str, Protection] | None:
        """Say to which host the connection leads and how it is protected; None while there is none."""
        with self._lock:
            return protected(self._link.connection) if self._link is not None else None

    def _keep_if_usable(self) -> None:
        """Keep the connection after an error of the server's, and drop a broken one."""
        if self._link is None or self._link.connection.closed:
            self._drop()
        self._busy = False

    def _drop(self) -> None:
        # Forgotten only when it is closed: if another exception comes before, the next call closes it.
        if self._link is not None:
            self._link.connection.close()
        self._link = None
        self._busy = False

    def _connect(self) -> Link:
        with connecting(self.name):
            link = self._link = Link(Connection.connect(**self._parameters), self.name)
        try:
            link.connection.patience = self._patience
            run(settle_in(self._create, self.name), Clients(link))
        except BaseException:
            self._drop()
            raise
        return link


class AsyncClient(OfLoop[AsyncLink]):
    """The same, awaited; belongs to the event loop that first used it, and follows to the next."""

    def __init__(self, url: str, create: bool = True, patience: float = PATIENCE) -> None:
        self._parameters = parameters(url)
        self._create = create
        self._patience = patience
        self.name = named(self._parameters)
        super().__init__()

    async def execute_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send statements in one round trip and one transaction; return the rows of each."""
        self._come_home()
        async with self._lock:
            if self._busy:
                await self._drop()
            try:
                self._busy = True
                replies = await (self._link or await self._connect()).execute_many(statements)
            except Exception:
                await self._keep_if_usable()
                raise
            except BaseException:
                await self._drop()
                raise
            self._busy = False
            return replies

    async def close(self) -> None:
        self._come_home()
        await self._drop()

    def _abandon(self, link: AsyncLink) -> None:
        link.connection.pgconn.finish()  # says no farewell, so that nothing is awaited

    async def _keep_if_usable(self) -> None:
        if self._link is None or self._link.connection.closed:
            await self._drop()
        self._busy = False

    async def _drop(self) -> None:
        if self._link is not None:
            await self._link.connection.close()
        self._link = None
        self._busy = False

    async def _connect(self) -> AsyncLink:
        with connecting(self.name):
            link = self._link = AsyncLink(await AsyncConnection.connect(**self._parameters), self.name)
        try:
            link.connection.patience = self._patience
            await arun(settle_in(self._create, self.name), Clients(link))
        except BaseException:
            await self._drop()
            raise
        return link
