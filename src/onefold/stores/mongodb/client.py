"""The two colours of a MongoDB client, behind one face: commands as the server takes them.

One client and its pool per process (and per event loop), made at first use and anew after a fork. The driver
never repeats a command by itself, and finds the server again when it is back; whatever went wrong, the
collections are looked at again before the next command.
"""

from __future__ import annotations

from typing import Any

from pymongo import AsyncMongoClient, MongoClient

from onefold.core.errors import OnefoldError
from onefold.drive import arun, run
from onefold.stores.homes import OfLoop, OfProcess
from onefold.stores.mongodb.address import Address, address
from onefold.stores.mongodb.documents import Command, Taken
from onefold.stores.mongodb.errors import answered, asking, unreached
from onefold.stores.mongodb.schema import prepare
from onefold.stores.shells import Clients

WRITES = {"findAndModify", "insert", "update", "delete", "createIndexes"}


class Link:
    """A blocking client of the driver's, and the database of a ledger."""

    def __init__(self, at: Address) -> None:
        self.name = at.name
        self.ready = False
        with asking(at.name):
            self.client: Any = MongoClient(at.url, **at.settings)
        self._database = self.client[at.database]

    def execute(self, command: Command) -> Any:
        """Send one command; return the documents that it finds, or the server's reply."""
        asked = command | _concern(command, self.client)
        with asking(self.name):
            if "find" in asked:
                return self._database.cursor_command(asked).to_list()
            reply = self._database.command(asked)
        return answered(reply, self.name)

    def close(self) -> None:
        self.client.close()


class AsyncLink:
    """The same, awaited."""

    def __init__(self, at: Address) -> None:
        self.name = at.name
        self.ready = False
        with asking(at.name):
            self.client: Any = AsyncMongoClient(at.url, **at.settings)
        self._database = self.client[at.database]

    async def execute(self, command: Command) -> Any:
        """Send one command; return the documents that it finds, or the server's reply."""
        asked = command | _concern(command, self.client)
        with asking(self.name):
            if "find" in asked:
                return await (await self._database.cursor_command(asked)).to_list()
            reply = await self._database.command(asked)
        return answered(reply, self.name)

    async def close(self) -> None:
        await self.client.close()


def _concern(command: Command, client: Any) -> Command:
    """Say how safe a write must be before it is answered, and that a look shows nothing less safe."""
    if not WRITES.isdisjoint(command):
        return {"writeConcern": client.write_concern.document}
    if "find" in command:
        # Where writes do not wait for a majority, neither may a look: it would not see what was just written.
        safe = client.write_concern.document.get("w") == "majority"
        return {"readConcern": {"level": "majority" if safe else "local"}}
    return {}


class Client(OfProcess[Link]):
    """A link that is there when it is needed, to collections that were checked; shared by threads."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self.name = self.address.name
        self._create = create
        super().__init__()

    def execute(self, command: Command) -> Any:
        """Send one command; return the documents that it finds, or the server's reply."""
        link = self._reach()
        try:
            return link.execute(command)
        except Taken:
            raise
        except OnefoldError:
            link.ready = False
            raise

    def safety(self) -> dict[str, Any]:
        """Say what a write waits for before it is answered."""
        concern: dict[str, Any] = self._reach().client.write_concern.document
        return concern

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def _reach(self) -> Link:
        self._leave_parent()
        with self._lock:
            link = self._link = self._link or Link(self.address)
        if not link.ready:
            # Not behind the lock: while no server is found, threads must not wait for one another's patience.
            with unreached(self.name):
                run(prepare(self._create, self.name), Clients(link))
            link.ready = True
        return link


class AsyncClient(OfLoop[AsyncLink]):
    """The same, awaited; belongs to the event loop that first used it, and follows to the next."""

    def __init__(self, url: str, create: bool = True) -> None:
        self.address = address(url)
        self.name = self.address.name
        self._create = create
        super().__init__()

    async def execute(self, command: Command) -> Any:
        """Send one command; return the documents that it finds, or the server's reply."""
        link = await self._reach()
        try:
            return await link.execute(command)
        except Taken:
            raise
        except OnefoldError:
            link.ready = False
            raise

    async def close(self) -> None:
        self._come_home()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _reach(self) -> AsyncLink:
        self._come_home()
        link = self._link = self._link or AsyncLink(self.address)
        if not link.ready:
            with unreached(self.name):
                await arun(prepare(self._create, self.name), Clients(link))
            link.ready = True
        return link
