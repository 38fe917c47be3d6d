"""`onefold apps`: which applications there are, what they may be told, and where that comes from."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from onefold.cli.codes import Code
from onefold.cli.frame import Command, asked
from onefold.cli.talk import data, emit, say
from onefold.cli.text import pairs
from onefold.core.errors import Misconfigured
from onefold.core.redaction import HIDDEN
from onefold.worker.apps import App, built_in, load
from onefold.worker.configuration import DEFAULT, Configuration, Section, nearest
from onefold.worker.file import File
from onefold.worker.loading import parted
from onefold.worker.secret import Secret, is_reference


class Shown(NamedTuple):
    """An app as it is shown: what it is, its section if it has one, or what is wrong with it."""

    name: str
    section: Section | None
    app: App | None
    trouble: str = ""


@click.command("apps", cls=Command)
def apps() -> int:
    """List applications, their settings, and where each value comes from.

    Secrets are never shown. An app runs if onefold.toml has a section [apps.NAME]. With --json one
    object per line. Exits with 1 if a section names an app that cannot be loaded.

    \b
    Example:
        onefold apps
    """
    options, found = asked(), nearest()
    shown = [_shown(name, found) for name in dict.fromkeys([*found.apps, *built_in()])]
    if options.json:
        emit(*(_json(one) for one in shown))
    else:
        for one in shown:
            _print(one)
        if not shown:
            say("There are no apps here.")
    return Code.FAILED if any(one.trouble and one.section for one in shown) else Code.FINE


def _shown(name: str, found: Configuration) -> Shown:
    section = found.apps.get(name)
    try:
        return Shown(name, section, parted(name, section, found.folder)[0] if section else load(name))
    except Misconfigured as error:
        return Shown(name, section, None, str(error))


def _settings(one: Shown) -> list[dict[str, Any]]:
    import msgspec

    if one.app is None:
        return []
    given = one.section.values if one.section else {}
    told = []
    for field in msgspec.structs.fields(one.app.settings):
        secret = field.type is Secret
        value, origin = _default(field), DEFAULT
        if field.name in given:
            value, origin = given[field.name]
        told.append(
            {
                "name": field.name,
                "type": _type(field.type),
                "required": field.required,
                "value": _safe(value, secret),
                "origin": origin if field.name in given or not field.required else None,
            }
        )
    return told


def _default(field: Any) -> Any:
    import msgspec

    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None


def _type(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind)) if isinstance(kind, type) else str(kind)


def _safe(value: Any, secret: bool) -> Any:
    """Show where a secret is, never what it is; what cannot be written as JSON is shown as text."""
    if is_reference(value):
        return value
    if secret:
        return None if value is None else HIDDEN
    import msgspec

    try:
        return msgspec.to_builtins(value, enc_hook=_text)  # a default may be a struct, or hold some
    except TypeError:
        return repr(value)


def _text(value: Any) -> str:
    if isinstance(value, File):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is not written as JSON")


def _json(one: Shown) -> dict[str, Any]:
    return {
        "name": one.name,
        "configured": one.section is not None,
        "module": one.app.module if one.app else None,
        "summary": one.app.summary if one.app else None,
        "settings": _settings(one),
        "live": {name: _type(kind) for name, kind in one.app.live.items()} if one.app else {},
        "trouble": one.trouble or None,
    }


def _print(one: Shown) -> None:
    state = "runs with onefold run" if one.section else "not configured"
    summary = one.trouble or (one.app.summary if one.app else "")
    data(f"{one.name}  ({state})", f"  {summary}")
    data(*pairs([(line["name"], _value(line)) for line in _settings(one)], indent="    "))
    if one.app and one.app.live:
        names = ", ".join(f"{one.name}.{name}" for name in one.app.live)
        data(f"    live: {names}")


def _value(line: dict[str, Any]) -> str:
    if line["origin"] is None:
        return f"needed, {line['type']}"
    return f"{line['value']}  ({line['type']}, from {line['origin']})"
