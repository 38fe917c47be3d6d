"""A coroutine whose first step runs immediately; the rest is awaited only if there is one.

What never waits then costs neither a task nor a timer. It must be awaited in the task that made
it, and by nobody else.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Eager(Generic[T]):
    """Runs a coroutine up to its first wait. `ended` says whether that was all of it."""

    __slots__ = ("_coroutine", "_result", "_waits_for", "ended")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        try:
            self._waits_for = coroutine.send(None)
            self.ended = False
        except StopIteration as end:
            self._result: T = end.value
            self.ended = True

    def result(self) -> T:
        """Return what a coroutine that has ended returned."""
        return self._result

    def __await__(self) -> Generator[Any, Any, T]:
        """Go on after the first wait, as `yield from` does with a whole coroutine."""
        waits_for = self._waits_for
        while True:
            try:
                reply = yield waits_for
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, reply)
            try:
                waits_for = step()
            except StopIteration as end:
                result: T = end.value
                return result
