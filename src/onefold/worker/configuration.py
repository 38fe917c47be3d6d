"""What `onefold.toml`, the environment and flags say about a worker, with where each value came from.

It reads and checks; it loads no pipeline and opens no store. What is wrong is refused with the name of the
setting and its origin, before anything runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from onefold.core.errors import Misconfigured
from onefold.core.terms import seconds
from onefold.stores.configured import check_names, known, origin
from onefold.stores.locate import FILE, anchored
from onefold.worker.file import File
from onefold.worker.secret import Secret, is_reference, resolved

S = TypeVar("S", bound=msgspec.Struct)

DEFAULT = "the default"
VARIABLES = {"grace": "ONEFOLD_GRACE", "listen": "ONEFOLD_LISTEN", "log": "ONEFOLD_LOG"}

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>\w+)`")


class Value(NamedTuple):
    """A setting, and who said so."""

    value: Any
    origin: str


Values = dict[str, Value]


class Section(NamedTuple):
    """One table of the file: a pipeline or an app."""

    title: str
    values: Values


class Configuration(NamedTuple):
    """All that is configured; `folder` is where relative files and modules are looked for."""

    folder: Path
    worker: Section
    pipelines: dict[str, Section]
    apps: dict[str, Section]
    file: Path | None = None


class WorkerSettings(msgspec.Struct, frozen=True):
    """How a worker of `onefold run` behaves."""

    grace: float | str = "30s"
    listen: str | None = None
    log: Literal["text", "json"] = "text"
    purge: bool = True
    """Whether it removes done entries whose `keep` is over."""


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a section may change about its pipelines, without touching their code."""

    lease: float | str | None = None
    keep: float | str | None = None
    attempts: int | None = None
    backoff: tuple[float | str, float | str] | None = None
    at_once: int | None = None
    timeout: float | str | None = None
    duplicate_alarm: float | None = None
    lag_alarm: float | str | None = None


class PipelineSettings(Overrides, frozen=True, kw_only=True):
    """A section `[pipelines.NAME]`."""

    use: str


# ----- reading


def nearest(start: Path | None = None) -> Configuration:
    """Read the nearest `onefold.toml` upwards; without one there are only defaults."""
    here = start or Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return read(folder / FILE)
    return Configuration(here, Section("worker", {}), {}, {})


def read(file: Path) -> Configuration:
    """Read one file."""
    import tomllib

    try:
        text = file.read_text("utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}") from error
    return parsed(tables, text, file)


def parsed(tables: Mapping[str, Any], text: str, file: Path) -> Configuration:
    """Sort the tables of a file; the text tells on which line a setting stands."""
    check_names(tables, text, file)
    pipelines = _sections("pipelines", tables, text, file)
    apps = _sections("apps", tables, text, file)
    if both := sorted(pipelines.keys() & apps.keys()):
        raise Misconfigured(
            f"{file} has [pipelines.{both[0]}] and [apps.{both[0]}]: rename one, so that "
            f"`onefold run {both[0]}` means one thing"
        )
    worker = _section("worker", tables.get("worker", {}), text, file)
    return Configuration(file.parent, worker, pipelines, apps, file)


def _sections(kind: str, tables: Mapping[str, Any], text: str, file: Path) -> dict[str, Section]:
    found = tables.get(kind, {})
    if not isinstance(found, dict):
        raise Misconfigured(f"{kind} in {file} is no table: write [{kind}.NAME]")
    return {name: _section(f"{kind}.{name}", table, text, file) for name, table in found.items()}


def _section(title: str, table: object, text: str, file: Path) -> Section:
    if not isinstance(table, dict):
        raise Misconfigured(f"{title} in {file} is no table: write [{title}] and its settings below it")
    return Section(title, {name: Value(one, origin(text, title, name, file)) for name, one in table.items()})


# ----- checking


def struct(kind: type[S], section: Section, folder: Path) -> S:
    """Make a struct of a section's values; secrets are read now, and kept out of every error."""
    title, values = section
    fields = [field.name for field in _fields(kind)]
    for name, one in values.items():
        known(title, [name], fields, one.origin)
    plain = {name: looked_up(one, f"{name} of [{title}]", folder) for name, one in values.items()}
    plain |= _defaults(kind, plain.keys(), folder)
    try:
        return msgspec.convert(plain, kind, dec_hook=partial(_hook, folder))
    except msgspec.ValidationError as error:
        raise Misconfigured(_told(str(error), section)) from None


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct; to find them, msgspec evaluates the text of every annotation."""
    return msgspec.structs.fields(kind)


def looked_up(given: Value, what: str, folder: Path) -> Any:
    """Read what env: and file: name, also inside of lists and tables; a relative file lies beside ours."""

    def look(value: Any) -> Any:
        if is_reference(value):
            return resolved(value, f"{what} (from {given.origin})", folder)
        if isinstance(value, str):
            return anchored(value, folder)
        if isinstance(value, list):
            return [look(one) for one in value]
        if isinstance(value, dict):
            return {name: look(one) for name, one in value.items()}
        return value

    return look(given.value)


def _defaults(kind: type[msgspec.Struct], given: Container[str], folder: Path) -> dict[str, Any]:
    """Return the defaults that name files, as the same text in a section would be read."""
    texts = {field.name: field.default for field in _fields(kind) if field.name not in given}
    files = {name: str(text) for name, text in texts.items() if isinstance(text, File)}
    urls = {name: anchored(text, folder) for name, text in texts.items() if type(text) is str}
    return files | {name: url for name, url in urls.items() if url != texts[name]}


def _hook(folder: Path, kind: type, value: Any) -> Any:
    if kind is File and isinstance(value, str):
        return File(value, folder)
    if kind is not Secret:
        raise NotImplementedError(f"a setting cannot be a {kind.__name__}")
    if not isinstance(value, Secret):
        raise ValueError("It is written in the clear, write env:NAME or file:PATH instead")
    return value


def _told(problem: str, section: Section) -> str:
    """Say what is wrong with a section in our words; the value itself may be a secret, and is left out."""
    title, values = section
    found = _AT.match(problem)
    what, path = (found["what"], found["path"] or "") if found else (problem, "")
    if missing := _MISSING.match(problem):
        return f"[{title}] needs {path and path + '.'}{missing['field']}: add it to {FILE}"
    name = re.split(r"[.\[]", path, maxsplit=1)[0]
    where = values[name].origin if name in values else FILE
    return f"{path or 'a setting'} of [{title}] is wrong: {what.replace('`', '')} (from {where})"


# ----- the worker's own settings


def worker_settings(found: Configuration, flags: Mapping[str, Any]) -> tuple[WorkerSettings, Values]:
    """Say how the worker behaves, and where each setting came from: a flag, the environment, or the file."""
    values = {**found.worker.values, **_from_environment(), **_from_flags(flags)}
    settings = struct(WorkerSettings, Section("worker", values), found.folder)
    where = values.get("grace", Value(None, DEFAULT)).origin
    seconds(settings.grace, f"grace (from {where})")
    return settings, {
        name: Value(getattr(settings, name), values[name].origin if name in values else DEFAULT)
        for name in WorkerSettings.__struct_fields__
    }


def _from_environment() -> Values:
    return {
        name: Value(os.environ[variable], f"${variable}")
        for name, variable in VARIABLES.items()
        if os.environ.get(variable)
    }


def _from_flags(flags: Mapping[str, Any]) -> Values:
    return {name: Value(value, f"--{name}") for name, value in flags.items() if value is not None}
