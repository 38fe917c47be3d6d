"""Replaces a function of a module that was just imported, by its name.

It handles functions, async functions, async generators, methods, static and class methods, and the getters of
properties. It changes the module or class only, so it must run before other modules import names from it.
References that the module itself took while it was imported, such as in a table of functions, stay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, isawaitable, iscoroutinefunction, signature
from types import ModuleType
from typing import Any, NamedTuple

from proof.sim.bug import Misplanted, Swap

PACKAGE = "onefold"

Function = Callable[..., Any]


class Place(NamedTuple):
    """Where a function was found: the class or module that holds it, under which name, and as what."""

    owner: Any
    name: str
    held: Any
    """The function itself, or the descriptor around it."""

    @property
    def function(self) -> Any:
        if isinstance(self.held, staticmethod | classmethod):
            return self.held.__func__
        return self.held.fget if isinstance(self.held, property) else self.held


def install(module: ModuleType, swap: Swap, bug: str) -> None:
    """Replace the function that a swap names."""
    place = fitting(module, swap, bug)
    wrong = _wrapped(place.function, swap.replacement)
    held = place.held
    if isinstance(held, staticmethod | classmethod):
        wrong = type(held)(wrong)
    elif isinstance(held, property):
        wrong = property(wrong, held.fset, held.fdel, held.__doc__)
    setattr(place.owner, place.name, wrong)


def fitting(module: ModuleType, swap: Swap, bug: str) -> Place:
    """Find the function that a swap names, or raise Misplanted if it is not there or would not fit.

    A replacement that takes other arguments would raise TypeError in every history. That would look like a
    bug that was found.
    """
    where = f"{bug}: {swap.qualname} of {swap.module}"
    place = _found(module, swap.qualname)
    if place is None:
        raise Misplanted(f"{bug}: there is no function {swap.qualname} in {swap.module}")
    if not callable(place.function) or isinstance(place.function, type):
        raise Misplanted(f"{where} is no function, but of type {type(place.held).__name__}")
    if not _takes_the_arguments(swap.replacement, place.function):
        asked, given = signature(place.function), signature(swap.replacement)
        raise Misplanted(f"{where} takes {asked}, which the replacement {given} does not accept")
    if iscoroutinefunction(swap.replacement) and not iscoroutinefunction(place.function):
        raise Misplanted(f"{where} is not async, but the replacement is")
    stale = _names_from_before(swap.replacement)
    if stale:
        raise Misplanted(f"{where}: import {', '.join(stale)} inside the replacement, not above it")
    return place


def _found(module: ModuleType, qualname: str) -> Place | None:
    """Look a name up in the dictionaries themselves: an inherited method belongs to another class."""
    *outer, name = qualname.split(".")
    owner: Any = module
    for each in outer:
        owner = getattr(owner, "__dict__", {}).get(each)
    held = getattr(owner, "__dict__", {}).get(name)
    return None if held is None else Place(owner, name, held)


def _takes_the_arguments(replacement: Function, original: Function) -> bool:
    asked = list(signature(original).parameters.values())
    required = [one for one in asked if one.default is Parameter.empty]
    return _binds(replacement, asked) and _binds(replacement, required)


def _binds(replacement: Function, asked: list[Parameter]) -> bool:
    by_place = [one for one in asked if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = {one.name: None for one in asked if one.kind is one.KEYWORD_ONLY}
    try:
        signature(replacement).bind(None, *by_place, **by_name)
    except TypeError:
        return False
    return True


def _names_from_before(replacement: Function) -> list[str]:
    """Name what the replacement's module imported from the package before the bug was planted."""
    known: dict[str, Any] = getattr(replacement, "__globals__", {})
    return sorted(name for name, value in known.items() if _home(value).partition(".")[0] == PACKAGE)


def _home(value: Any) -> str:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(home)


def _wrapped(original: Function, replacement: Function) -> Any:
    """Call the replacement with the original in front.

    A caller may ask whether a function is async, so an async one stays async. An async generator is returned
    as it is, so that closing it closes the generator of the replacement.
    """
    if not iscoroutinefunction(original):

        @wraps(original)
        def called(*args: Any, **named: Any) -> Any:
            return replacement(original, *args, **named)

        return called

    @wraps(original)
    async def awaited(*args: Any, **named: Any) -> Any:
        given = replacement(original, *args, **named)
        return await given if isawaitable(given) else given

    return awaited
