"""Interrupt a call before the n-th line that it runs in given folders, as a signal's exception would.

Python looks for signals at the end of calls, at the start of functions and when it jumps back. A tracer sees
lines, and some of them no signal can strike: the bare word `try`, and the end of a `with` block, which is run
like its beginning in one go. These are left out: inside a `with`, they are outside of what it protects.
"""

import dis
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class Strike:
    """Raises KeyboardInterrupt before the n-th line, and perhaps again some lines later."""

    def __init__(self, folders: Sequence[Path], at: int, again: int = 0) -> None:
        self._folders = tuple(f"{folder}/" for folder in folders)
        self._strikes = {at, at + again}
        self.lines = 0
        self.struck = 0

    def on(self, call: Callable[[], object]) -> None:
        """Make a call under this strike."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        # Python itself drops an exception that strikes a destructor, whatever the destructor calls.
        if frame.f_code.co_name == "__del__":
            return None
        return self._step if frame.f_code.co_filename.startswith(self._folders) else None

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and frame.f_lasti not in _out_of_reach(frame.f_code):
            self.lines += 1
            if self.lines in self._strikes:
                self.struck += 1
                raise KeyboardInterrupt(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._step


@cache
def _out_of_reach(code: CodeType) -> frozenset[int]:
    """Return the steps of a function at which a line can begin, and no signal can strike."""
    steps = list(dis.get_instructions(code))
    blocks = {_line(step): step.offset for step in steps if step.opname == "BEFORE_WITH"}
    ends = {step.offset for step in steps if step.offset > blocks.get(_line(step), step.offset)}
    return frozenset(ends | {step.offset for step in steps if step.opname == "NOP"})


def _line(step: dis.Instruction) -> int | None:
    return step.positions.lineno if step.positions else None
