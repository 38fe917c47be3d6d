"""Applications: modules that turn a section of `onefold.toml` into pipelines.

An app is a module, `onefold.apps.NAME` or any other that `use` names. It offers

    \"\"\"What it does, in one sentence.\"\"\"           its docstring; `onefold apps` shows the first line

    class Settings(msgspec.Struct, frozen=True):    what `[apps.NAME]` may say: names, types, defaults;
        chat_token: Secret                          a `Secret` must be written as env:NAME or file:PATH
        minimum: float = 10_000.0

    LIVE = {"subscribers": list[Subscriber]}        optional: what can be changed while it runs, by
                                                    `onefold settings put NAME.subscribers FILE`

    def pipelines(settings: Settings, live: Live) -> Pipeline | Sequence[Pipeline]:
        subscribers = live.setting("subscribers", LIVE["subscribers"])
        …                                           `await subscribers.value()` inside of each= or a sink

An app only says what is to be done: `pipelines` connects to nothing and reads nothing. Beside its own
settings a section may override lease, keep, attempts, backoff, at_once, timeout and the alarms of all its
pipelines. This module finds and checks apps; it must not know any of them by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, NamedTuple, Protocol

import msgspec

from onefold.core.errors import Misconfigured
from onefold.worker.pipeline import Pipeline
from onefold.worker.settings import Live

HOME = "onefold.apps"


class Makes(Protocol):
    """The function of an app that makes its pipelines."""

    def __call__(self, settings: Any, live: Live) -> Pipeline | Sequence[Pipeline]: ...


class App(NamedTuple):
    """What a module offers as an app."""

    module: str
    summary: str
    settings: type[msgspec.Struct]
    pipelines: Makes
    live: Mapping[str, Any]


def built_in() -> list[str]:
    """Name the apps that come with Onefold, without importing them."""
    home = find_spec(HOME)
    places = home.submodule_search_locations if home else None
    return sorted(one.name for one in iter_modules(places or []) if not one.name.startswith("_"))


def load(name: str, module: str | None = None) -> App:
    """Import an app, by its own name or by the module that a section names."""
    if module is None:
        module = f"{HOME}.{_known(name, built_in())}"
    try:
        found = import_module(module)
    except ImportError as error:
        raise Misconfigured(_missing(name, module, error)) from error
    for part in ("Settings", "pipelines"):
        if not hasattr(found, part):
            raise Misconfigured(
                f"the app {name} is {module}, which has no {part}: an app offers Settings and pipelines()"
            )
    if not (inspect.isclass(found.Settings) and issubclass(found.Settings, msgspec.Struct)):
        raise Misconfigured(f"Settings of the app {name} ({module}) is no msgspec.Struct")
    summary = (found.__doc__ or "").strip().partition("\n")[0]
    return App(module, summary, found.Settings, found.pipelines, getattr(found, "LIVE", {}))


def _known(name: str, names: Iterable[str]) -> str:
    there = list(names)
    if name in there:
        return name
    near = get_close_matches(name, there, 1)
    hint = f"did you mean {near[0]}?" if near else f"these are known: {', '.join(there) or 'none'}"
    raise Misconfigured(
        f'there is no app {name!r}: {hint}; an app of your own is named by use = "module" in [apps.{name}]'
    )


def _missing(name: str, module: str, error: ImportError) -> str:
    if error.name and f"{module}.".startswith(f"{error.name}."):
        return f"the app {name} is said to be {module}, but there is no module {error.name}"
    # A package may be there while a library that it needs is missing: then the error names no module.
    reason = str(error).partition("\n")[0].rstrip(".")
    lacks = f"needs {error.name}, which is not installed" if error.name else f"cannot be loaded: {reason}"
    return f'the app {name} {lacks}: pip install "onefold[{_extra(name)}]"'


def _extra(name: str) -> str:
    """Name the extra that brings what an app needs: its own, if it has one."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        extras = metadata("onefold").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        extras = []
    return name if name in extras else "worker"
