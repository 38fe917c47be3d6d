"""Crash points: a flow dies before and after every call it makes on its store, one death per run.

    for death in each_death(start):
        ...look at what the dead left behind, and let another recover...

`start` builds a fresh world and returns the flow to kill with the ports to drive it against. A death is the
end of a process: the flow is dropped, nothing of it runs any more. This module kills; it asserts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from onefold.core.flow import Flow
from onefold.drive import Event, Ports, run

When = Literal["before", "after"]


class Death(NamedTuple):
    """Where a flow died: at which of its store calls, and on which side of it."""

    number: int
    call: str
    when: When


class Died(BaseException):
    """Ends a run as a kill does: no flow gets to see it."""


def each_death(start: Callable[[], tuple[Flow[Any], Ports]]) -> Iterator[Death]:
    """Kill a flow at every point in turn, until it comes through alive; yield after each death."""
    number = 0
    while True:
        number += 1
        for when in ("before", "after"):
            flow, ports = start()
            name = kill(flow, ports, number, when)
            if name is None:
                return
            yield Death(number, name, when)


def kill(flow: Flow[Any], ports: Ports, number: int, when: When) -> str | None:
    """Drive a flow until it dies at its n-th store call; return that call's name, None if it never came."""
    killer = _Killer(number, when)
    try:
        run(_mortal(flow), Ports(ports.store, ports.clock, tap=killer.see))
    except Died:
        return killer.name
    return None


async def _mortal(flow: Flow[Any]) -> Any:
    """Pass a flow's calls on, and drop it where it dies: a dead process runs no handlers."""
    reply: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration as end:
            return end.value
        try:
            reply, error = await call, None
        except Died:
            raise
        except BaseException as raised:
            reply, error = None, raised


class _Killer:
    """Counts store calls at the tap, and ends the run at the chosen one."""

    def __init__(self, number: int, when: When) -> None:
        self.name: str | None = None
        self._left = number
        self._when = when

    def see(self, event: Event) -> None:
        if event.call.port != "store" or (event.seconds is None) is not (self._when == "before"):
            return
        self._left -= 1
        if self._left == 0:
            self.name = event.call.name
            raise Died
