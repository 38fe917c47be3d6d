"""Functions of the user that are effects: what kind they are, and whether they did their work.

A function that returns a coroutine, a generator or a future has not done its work when it returns. Storing
*done* for it would lose the effect without an error. Nothing here calls a function or asks a store.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

Kind = Literal["sync", "async", "generator", "async generator"]

_NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_GENERATOR

_FINISHED = frozenset({type(None), bool, int, float, str, bytes, dict})
"""Types of most receipts: nothing in them is left to run, and asking `inspect` about each would cost more."""

NO_GENERATORS = (
    "neither Ledger nor AsyncLedger protects a generator, because its body runs after the call has returned: "
    "protect the function that does the work, and loop around it"
)


def kind(function: Callable[..., Any]) -> Kind:
    """Say how a function does its work, as far as that is visible before it is called."""
    flags = getattr(getattr(function, "__code__", None), "co_flags", None)
    if isinstance(flags, int):  # most are functions: a look by `inspect` costs a tenth of a call
        if not flags & _NOT_PLAIN:
            return "sync"
        if flags & inspect.CO_COROUTINE:
            return "async"
    while isinstance(function, partial):
        function = function.func
    # An object is as async as its `__call__`; for a function this second look finds nothing.
    for one in (function, getattr(type(function), "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(one):
            return "async"
        if inspect.isasyncgenfunction(one):
            return "async generator"
        if inspect.isgeneratorfunction(one):
            return "generator"
    return "sync"


def name_of(function: object) -> str:
    """Name a function in an error."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else f"{function!r:.80}"


def unfinished(value: object) -> str | None:
    """Name what is left to run in a result; None if the work is done. A new coroutine is closed.

    Lists and tuples are looked into: `[send(one) for one in many]` is the same mistake, many times.
    """
    if type(value) in _FINISHED:
        return None
    if isinstance(value, list | tuple):
        found = [what for one in value if (what := _left_to_run(one))]
        return f"{found[0]} inside a {type(value).__name__}" if found else None
    return _left_to_run(value)


def _left_to_run(value: object) -> str | None:
    if type(value) in _FINISHED:
        return None
    if inspect.iscoroutine(value):
        if inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            value.close()  # or Python warns that nobody awaited it, beside the error that says so
        return "a coroutine that nobody awaited"
    if inspect.isasyncgen(value):
        return "an async generator"
    if inspect.isgenerator(value) or isinstance(value, map | filter):
        return "a generator"
    if inspect.isawaitable(value) or _is_future(value):
        return "an awaitable or future"
    return None


def _is_future(value: object) -> bool:
    from concurrent.futures import Future  # here: it imports more than a command that reads needs

    return isinstance(value, Future)
