"""A flow is a coroutine that awaits only `Call` values; it never waits by itself.

It looks like asyncio and is not: `drive.run` makes the calls blocking, `drive.arun` awaits them,
and a simulation may lose, delay or refuse them. A flow that awaits anything else is closed with an
error. Flows must not read clocks or make tokens: both come in as values or by a call.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from typing import Any, Generic, Literal, TypeVar

from onefold.core.entry import Change, Reply, Seen, State
from onefold.core.key import Key

R = TypeVar("R")
T = TypeVar("T")

Found = tuple[Key, Seen]


class Call(Generic[R]):
    """One call on a port, as a value: it can be merged, logged, lost, or not made at all."""

    __slots__ = ("args", "name", "port")

    def __init__(
        self, port: Literal["store", "clock", "client"], name: str, args: tuple[Any, ...] = ()
    ) -> None:
        self.port = port
        self.name = name
        self.args = args

    def on(self, ports: object) -> Any:
        """Make the call on real ports; where these are asynchronous the result is to be awaited."""
        return getattr(getattr(ports, self.port), self.name)(*self.args)

    def __await__(self) -> Generator[Call[R], Any, R]:
        reply: R = yield self
        return reply

    def __repr__(self) -> str:
        return f"{self.port}.{self.name}"


Flow = Coroutine[Call[Any], Any, T]


def get(keys: Sequence[Key]) -> Call[Sequence[Seen]]:
    """Ask what is stored now."""
    return Call("store", "get", (keys,))


def swap(changes: Sequence[Change]) -> Call[Sequence[Reply]]:
    """Try changes, in the order of their ids; hear what is stored afterwards, or that it is unknown."""
    return Call("store", "swap", (changes,))


def scan(
    scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
) -> Call[tuple[Sequence[Found], str | None]]:
    """Ask for a page of entries and for where the next page starts."""
    return Call("store", "scan", (scope, states, due, after, limit))


_NOW: Call[float] = Call("clock", "monotonic")


def now() -> Call[float]:
    """Read this process's monotonic clock."""
    return _NOW


def sleep(seconds: float) -> Call[None]:
    """Let time pass."""
    return Call("clock", "sleep", (seconds,))
