"""Stores that are wrong on purpose, each in one way that a real one could be. Each must fail the contract.

A contract that lets one of them pass has a hole. `Right` and `Clockless` are what they are made from, and
pass. They serve tests only: nothing may store anything in them.
"""

from __future__ import annotations

from types import ModuleType

from onefold.testing.wrong import scans, skews, times, writes
from onefold.testing.wrong.steps import Clockless, Right

__all__ = ["WRONG", "Clockless", "Right"]


def _wrong_stores(module: ModuleType) -> list[type]:
    named = [
        each for name, each in vars(module).items() if not name.startswith("_") and isinstance(each, type)
    ]
    return [each for each in named if each.__module__ == module.__name__]


WRONG: tuple[type, ...] = tuple(
    each for module in (writes, times, skews, scans) for each in _wrong_stores(module)
)
"""Every wrong store; each is opened with a clock."""
