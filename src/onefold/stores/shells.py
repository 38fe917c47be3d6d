"""A backend is a plan: flows that await calls on a client. Two shells make a store of it, in either colour.

The plan is written once; what differs between the colours is the client, and how its calls are waited for.
Nothing in here knows any backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.flow import Call, Flow, Found
from onefold.core.key import Key
from onefold.drive import Tap, arun, run
from onefold.drive.shelter import Shelter

Row = tuple[Any, ...]


class Plan(Protocol):
    """What a backend does, as flows over its client."""

    def get(self, keys: Sequence[Key]) -> Flow[Sequence[Seen]]: ...

    def swap(self, changes: Sequence[Change]) -> Flow[Sequence[Reply]]: ...

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Flow[tuple[Sequence[Found], str | None]]: ...


@dataclass(frozen=True, slots=True)
class Clients:
    """What a plan's flows are driven against."""

    client: Any
    tap: Tap | None = None


class Blocking:
    """A plan on a blocking client."""

    def __init__(self, plan: Plan, client: Any) -> None:
        self.client = client
        self._plan = plan
        self._ports = Clients(client)

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return run(self._plan.get(keys), self._ports)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return run(self._plan.swap(changes), self._ports)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return run(self._plan.scan(scope, states, due, after, limit), self._ports)

    def close(self) -> None:
        self.client.close()


class Sheltered(Blocking):
    """A plan on a blocking client whose driver does not survive an interrupt."""

    def __init__(self, plan: Plan, client: Any) -> None:
        super().__init__(plan, client)
        self._shelter = Shelter()

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self._shelter.call(super().get, keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return self._shelter.call(super().swap, changes)

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._shelter.call(super().scan, scope, states, due, after, limit)

    def close(self) -> None:
        self._shelter.call(super().close)


class Awaited:
    """A plan on an awaited client."""

    def __init__(self, plan: Plan, client: Any) -> None:
        self.client = client
        self._plan = plan
        self._ports = Clients(client)

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return await arun(self._plan.get(keys), self._ports)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        return await arun(self._plan.swap(changes), self._ports)

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        return await arun(self._plan.scan(scope, states, due, after, limit), self._ports)

    async def close(self) -> None:
        await self.client.close()


def on_client(name: str, *args: Any) -> Call[Any]:
    """Ask the client of a backend for something."""
    return Call("client", name, args)
