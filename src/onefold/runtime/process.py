"""Which process this is: a number that differs in every forked child.

A single call would ask the system for it several times. The interpreter calls a hook in each child instead.
"""

from __future__ import annotations

import os


class Process:
    """The running process. Its number is new in each child, and never repeats along a line of forks."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0
        os.register_at_fork(after_in_child=self._count)

    def _count(self) -> None:
        self.number += 1


PROCESS = Process()
