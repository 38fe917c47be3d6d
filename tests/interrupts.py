"""Interrupt a call before the n-th line that it runs in given files, as a signal's exception would.

Python looks for signals at the end of calls, at the start of functions and when it jumps back. A tracer sees
lines, and some of them no signal can strike: the bare word `try`, and the end of a `with` block, which is run
like its beginning in one go. These are left out, unless a test asks for lines `anywhere`: inside a `with`,
they are outside of what it protects. A guard must survive even these.
"""

import dis
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

UNSTARTED = "ignore::pytest.PytestUnraisableExceptionWarning"
"""For `filterwarnings`: a flow that was struck before its first line was never awaited."""

MOST = 5_000
"""An attempt that runs more lines than this does not end."""


class Strike:
    """Raises KeyboardInterrupt before the n-th line in some files, and perhaps again some lines later."""

    def __init__(self, places: Sequence[Path], at: int, again: int = 0, anywhere: bool = False) -> None:
        self._places = tuple(f"{place}/" if place.is_dir() else str(place) for place in places)
        self._strikes = {at, at + again}
        self._anywhere = anywhere
        self.lines = 0
        self.struck = 0
        self.line = ""
        """Where it struck last, if it did."""

    def on(self, call: Callable[[], object]) -> None:
        """Make a call under this strike."""
        before = sys.gettrace()
        # The collector would end forgotten coroutines under the strike, and Python drops an exception that
        # strikes there. If that happens while Python calls a tracer, Python 3.11 uses the tracer after it
        # was freed: `TypeError: 'traceback' object is not callable`.
        gc.disable()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)
            gc.enable()

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        # Python itself drops an exception that strikes a destructor, whatever the destructor calls.
        if frame.f_code.co_name == "__del__":
            return None
        return self._step if frame.f_code.co_filename.startswith(self._places) else None

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and (self._anywhere or frame.f_lasti not in _out_of_reach(frame.f_code)):
            self.lines += 1
            if self.lines in self._strikes:
                self.struck += 1
                self.line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt(self.line)
        return self._step


def every_line(modules: Iterable[ModuleType], attempt: Callable[[int], object]) -> Iterator[tuple[int, str]]:
    """Make attempts, each struck one line later; yield its number and line after each that was struck."""
    files = [Path(str(module.__file__)) for module in modules]
    for at in count(1):
        assert at < MOST, "the attempt does not end"
        strike = Strike(files, at, anywhere=True)
        with suppress(KeyboardInterrupt):
            strike.on(partial(attempt, at))
        if not strike.struck:
            return
        yield at, strike.line


@cache
def _out_of_reach(code: CodeType) -> frozenset[int]:
    """Return the steps of a function at which a line can begin, and no signal can strike."""
    steps = list(dis.get_instructions(code))
    blocks = {_line(step): step.offset for step in steps if step.opname == "BEFORE_WITH"}
    ends = {step.offset for step in steps if step.offset > blocks.get(_line(step), step.offset)}
    return frozenset(ends | {step.offset for step in steps if step.opname == "NOP"})


def _line(step: dis.Instruction) -> int | None:
    return step.positions.lineno if step.positions else None
