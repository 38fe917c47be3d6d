"""The two colours of a Redis connection, behind one face: commands leave in one pipeline.

One connection per process (and per event loop), opened at first use, dropped when it fails and opened anew by
the next call. It never repeats a command by itself, except for a script that the server did not know and so
did not run. Errors are sorted in `errors`: what certainly was not done is Unreachable, what may have been
done is Unanswered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.exceptions import NoScriptError, ResponseError

from onefold.drive import arun, run
from onefold.stores.homes import OfLoop, OfProcess
from onefold.stores.redis.address import address
from onefold.stores.redis.errors import answered, unanswered, unreached
from onefold.stores.redis.opening import prepare
from onefold.stores.redis.plan import Command
from onefold.stores.shells import Clients

BEHAVIOUR: dict[str, Any] = {"protocol": 2, "retry_on_timeout": False, "health_check_interval": 0}
"""How connections behave: without a `retry` of their own, they try once."""


class Link:
    """One blocking connection. Commands leave together."""

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.name = name

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        with unanswered(self.name):
            replies = self._exchange(command.words for command in commands)
            if unknown := _unknown(replies):
                told = self._exchange(commands[at].in_full for at in unknown)
                replies = _filled(replies, unknown, told)
        return answered(replies, self.name)

    def _exchange(self, commands: Iterable[Sequence[Any]]) -> list[Any]:
        sent = list(commands)
        self.connection.send_packed_command(self.connection.pack_commands(sent))
        return [self._read() for _ in sent]

    def _read(self) -> Any:
        try:
            return self.connection.read_response()
        except ResponseError as error:
            return error  # the replies behind it must be read all the same

    def is_stale(self) -> bool:
        """Say whether the server has closed the connection, or says what nobody asked for."""
        try:
            return bool(self.connection.can_read(0))
        except redis.RedisError:
            return True

    def close(self) -> None:
        self.connection.disconnect()


class AsyncLink:
    """The same, awaited."""

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.name = name

    async def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        with unanswered(self.name):
            replies = await self._exchange(command.words for command in commands)
            if unknown := _unknown(replies):
                told = await self._exchange(commands[at].in_full for at in unknown)
                replies = _filled(replies, unknown, told)
        return answered(replies, self.name)

    async def _exchange(self, commands: Iterable[Sequence[Any]]) -> list[Any]:
        sent = list(commands)
        await self.connection.send_packed_command(self.connection.pack_commands(sent))
        return [await self._read() for _ in sent]

    async def _read(self) -> Any:
        try:
            return await self.connection.read_response()
        except ResponseError as error:
            return error

    async def is_stale(self) -> bool:
        """Say whether the server has closed the connection, or says what nobody asked for."""
        can_read = getattr(self.connection, "can_read", None) or self.connection.can_read_destructive
        try:
            return bool(await can_read())
        except redis.RedisError:
            return True

    async def close(self) -> None:
        await self.connection.disconnect(nowait=True)


class Client(OfProcess[Link]):
    """A blocking connection that is there when it is needed; shared by the threads of a process."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self.name = self.address.name
        self._create = create
        super().__init__()

    def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; return the reply to each."""
        self._leave_parent()
        with self._lock:
            if self._busy:
                self._drop()  # the last call was interrupted, and so was what follows it
            try:
                self._busy = True
                replies = (self._living() or self._connect()).execute_many(commands)
            except BaseException:
                self._drop()
                raise
            self._busy = False
            return replies

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            self._drop()

    def _living(self) -> Link | None:
        if self._link is not None and self._link.is_stale():
            self._drop()
        return self._link

    def _drop(self) -> None:
        # Also after an error that left it intact: an address may stand for another server by now. Forgotten
        # only when it is closed: if another exception comes before, the next call closes it.
        if self._link is not None:
            self._link.close()
        self._link = None
        self._busy = False

    def _connect(self) -> Link:
        kind = redis.SSLConnection if self.address.secure else redis.Connection
        link = self._link = Link(kind(**self.address.settings, **BEHAVIOUR), self.name)
        try:
            with unreached(self.name):
                link.connection.connect()
                run(prepare(self._create, self.address), Clients(link))
        except BaseException:
            self._drop()
            raise
        return link


class AsyncClient(OfLoop[AsyncLink]):
    """The same, awaited; belongs to the event loop that first used it, and follows to the next."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self.name = self.address.name
        self._create = create
        super().__init__()

    async def execute_many(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; return the reply to each."""
        self._come_home()
        async with self._lock:
            if self._busy:
                await self._drop()
            try:
                self._busy = True
                replies = await (await self._living() or await self._connect()).execute_many(commands)
            except BaseException:
                await self._drop()
                raise
            self._busy = False
            return replies

    async def close(self) -> None:
        self._come_home()
        async with self._lock:
            await self._drop()

    async def _living(self) -> AsyncLink | None:
        if self._link is not None and await self._link.is_stale():
            await self._drop()
        return self._link

    async def _drop(self) -> None:
        if self._link is not None:
            await self._link.close()
        self._link = None
        self._busy = False

    async def _connect(self) -> AsyncLink:
        kind = redis.asyncio.SSLConnection if self.address.secure else redis.asyncio.Connection
        link = self._link = AsyncLink(kind(**self.address.settings, **BEHAVIOUR), self.name)
        try:
            with unreached(self.name):
                await link.connection.connect()
                await arun(prepare(self._create, self.address), Clients(link))
        except BaseException:
            await self._drop()
            raise
        return link


def _unknown(replies: Sequence[Any]) -> list[int]:
    """Say which commands named a script that the server does not know: these were not run."""
    return [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]


def _filled(replies: Sequence[Any], places: Sequence[int], told: Sequence[Any]) -> list[Any]:
    later = dict(zip(places, told, strict=True))
    return [later.get(at, reply) for at, reply in enumerate(replies)]
