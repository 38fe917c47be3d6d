"""The two ways to wait for what a flow asks: `run` blocks, `arun` awaits. Every call passes the tap.

They hand replies and errors into the flow and take no decision; a flow that awaits anything but a call is
closed with an error that says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from onefold.core.errors import Unreachable
from onefold.core.flow import Call, Flow
from onefold.core.ports import AsyncClock, AsyncStore, Clock, Store
from onefold.runtime import current, monotonic

T = TypeVar("T")

GRACE = 5.0
"""Seconds that a cancelled flow has for each of its last calls."""


class Event(NamedTuple):
    """What the tap sees: a call about to be made (`seconds` None), or what came of it."""

    call: Call[Any]
    seconds: float | None = None
    reply: Any = None
    error: BaseException | None = None


Tap = Callable[[Event], None]


class Tapped(Protocol):
    """What flows are driven against: ports by name, and who listens in."""

    @property
    def tap(self) -> Tap | None: ...


class WallClock:
    """The clock of the current runtime: this process's own, unless a simulation runs."""

    def monotonic(self) -> float:
        return monotonic()

    def sleep(self, seconds: float) -> None:
        current().wait(seconds)


class AsyncWallClock:
    """The clock of the current runtime, awaited."""

    async def monotonic(self) -> float:
        return monotonic()

    async def sleep(self, seconds: float) -> None:
        await current().sleep(seconds)


_CLOCK = WallClock()
_ASYNC_CLOCK = AsyncWallClock()


@dataclass(frozen=True, slots=True)
class Ports:
    """What flows are driven against: a store and a clock, and who listens in."""

    store: Store
    clock: Clock = _CLOCK
    tap: Tap | None = None


@dataclass(frozen=True, slots=True)
class AsyncPorts:
    """The same, awaited."""

    store: AsyncStore
    clock: AsyncClock = _ASYNC_CLOCK
    tap: Tap | None = None
    grace: float = GRACE


def run(flow: Flow[T], ports: Tapped) -> T:
    """Drive a flow to its end, blocking."""
    tap = ports.tap
    reply: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(call, Call):
            raise _not_a_call(call, flow)
        try:
            if tap is None:  # as `call.on` does, without a call of its own
                reply = getattr(getattr(ports, call.port), call.name)(*call.args)
            else:
                reply = tapped(call, ports, tap)
            error = None
        except BaseException as raised:
            reply, error = None, raised


def tapped(call: Call[Any], ports: Tapped, tap: Tap) -> Any:
    """Make a call and let the tap see it before and after."""
    tap(Event(call))
    started = monotonic()
    try:
        reply = call.on(ports)
    except BaseException as error:
        tap(Event(call, monotonic() - started, error=error))
        raise
    tap(Event(call, monotonic() - started, reply))
    return reply


async def arun(flow: Flow[T], ports: Tapped, cancelled: bool = False) -> T:
    """Drive a flow to its end, awaiting. Cancellation is thrown into the flow.

    Calls that the flow makes after that are shielded, each bounded by a grace time. `cancelled` says that
    the caller was cancelled before the flow started.
    """
    reply: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(call, Call):
            raise _not_a_call(call, flow)
        try:
            reply, error = await (_last(call, ports) if cancelled else _made(call, ports)), None
        except GeneratorExit:
            flow.close()
            raise
        except BaseException as raised:
            cancelled = cancelled or is_cancellation(raised)
            reply, error = None, raised


def is_cancellation(error: BaseException) -> bool:
    """Say whether an error is asyncio's cancellation of the running task."""
    import asyncio

    return isinstance(error, asyncio.CancelledError)


def _made(call: Call[Any], ports: Tapped) -> Awaitable[Any]:
    made: Awaitable[Any] = call.on(ports) if ports.tap is None else atapped(call, ports, ports.tap)
    return made


async def atapped(call: Call[Any], ports: Tapped, tap: Tap) -> Any:
    """Make a call, awaiting, and let the tap see it before and after."""
    tap(Event(call))
    started = monotonic()
    try:
        reply = await call.on(ports)
    except BaseException as error:
        tap(Event(call, monotonic() - started, error=error))
        raise
    tap(Event(call, monotonic() - started, reply))
    return reply


async def _last(call: Call[Any], ports: Tapped) -> Any:
    import anyio

    grace: float = getattr(ports, "grace", GRACE)
    with anyio.move_on_after(grace, shield=True):
        return await _made(call, ports)
    raise Unreachable(f"{call} did not answer within {grace:.0f} s of grace after a cancellation")


def _not_a_call(awaited: object, flow: Flow[Any]) -> TypeError:
    flow.close()
    return TypeError(f"a flow awaits calls on its ports only, and this one awaited {awaited!r:.80}")
