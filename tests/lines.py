"""Strikes: raise KeyboardInterrupt before a chosen line, as a signal's exception may come before any.

`every_line` repeats an attempt and strikes one line later each time, until an attempt gets through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType, ModuleType
from typing import Any

UNSTARTED = "ignore::pytest.PytestUnraisableExceptionWarning"
"""For `filterwarnings`: a flow that was struck before its first line was never awaited."""

MOST = 5_000
"""An attempt that runs more lines than this does not end."""


class Strike:
    """Counts the lines that run in some modules, and raises before one of them."""

    def __init__(self, modules: Iterable[ModuleType], at: int) -> None:
        self._files = {module.__file__ for module in modules}
        self._left = at
        self.line = ""
        """Where it struck, if it did."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.line = f"{frame.f_code.co_name}:{frame.f_lineno}"
                raise KeyboardInterrupt(self.line)
        return self


@contextmanager
def struck(modules: Iterable[ModuleType], at: int) -> Iterator[Strike]:
    """Raise KeyboardInterrupt before the line that is the so-maniest to run in these modules."""
    strike, before = Strike(modules, at), sys.gettrace()
    sys.settrace(strike)
    try:
        yield strike
    finally:
        sys.settrace(before)


def every_line(modules: Iterable[ModuleType], attempt: Callable[[int], object]) -> Iterator[tuple[int, str]]:
    """Make attempts, each struck one line later; yield its number and line after each that was struck."""
    modules = list(modules)
    for at in count(1):
        assert at < MOST, "the attempt does not end"
        with struck(modules, at) as strike, suppress(KeyboardInterrupt):
            attempt(at)
        if not strike.line:
            return
        yield at, strike.line
