"""`onefold settings`: what running workers can be told without a restart."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import iso
from onefold.cli.frame import Asked, Command, Group, asked
from onefold.cli.opened import Opened, check_named, found_store, opened
from onefold.cli.problems import Facts, Problem
from onefold.cli.talk import agreed, data, emit, operator, say
from onefold.cli.text import table
from onefold.core.documents import listed
from onefold.core.errors import Misconfigured
from onefold.core.story import moment
from onefold.runtime import current
from onefold.worker.settings import Stored, checked, get, put

COMMANDS = {"get": "onefold.cli.settings:get_", "put": "onefold.cli.settings:put_"}
UNSURE = "no effect ran; whether the setting was written is not known"


@click.group("settings", cls=Group, late=COMMANDS)
def settings() -> None:
    """Read and change what workers follow while they run.

    \b
    Example:
        onefold settings get
    """


@click.command("get", cls=Command)
@click.argument("name", required=False, metavar="[NAME]")
def get_(name: str | None) -> int:
    """Print a live setting as JSON; without a name, list all.

    With --json also its number, who put it and when. Exits with 1 if nobody put it.

    \b
    Example:
        onefold settings get whales.subscribers
    """
    options = asked()
    with opened(options) as store:
        if name is None:
            return _list(store, options)
        stored = store.run(get(name))
    if stored is None:
        steps = (f"onefold settings put {name} FILE",)
        raise Problem(Code.FAILED, Facts(f"{name} is not set", "nobody put it in this store", steps=steps))
    if options.json:
        emit(_json(name, stored))
    else:
        click.echo(_pretty(stored.value))
    return Code.FINE


def _list(store: Opened, options: Asked) -> int:
    found = store.run(listed("settings"))
    rows = [
        (
            key.label,
            Stored(one.value.get("value"), one.value.get("number", 0), one.value.get("by", ""), one.written),
        )
        for key, one in found
    ]
    if options.json:
        emit(*(_json(name, stored) for name, stored in rows))
    elif not rows:
        say("Nothing is set.")
    else:
        told = [(name, str(one.number), one.by, moment(one.written)) for name, one in rows]
        data(*table(("name", "number", "by", "since"), told, right=(1,)))
    return Code.FINE


def _json(name: str, stored: Stored) -> dict[str, Any]:
    told = {"name": name, "value": stored.value, "number": stored.number, "by": stored.by}
    return {**told, "written": iso(stored.written)}


def _pretty(value: Any) -> str:
    import json

    return json.dumps(value, indent=2)


# ----- putting


@click.command("put", cls=Command)
@click.argument("name")
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--over", metavar="NUMBER", type=int, help="Only if this number stands; see --json.")
@click.option("--by", metavar="NAME", help="Who decides; else the login name.")
def put_(name: str, file: str | None, over: int | None, by: str | None) -> int:
    """Put a live setting, from a JSON or TOML file or from standard input.

    NAME is APP.SETTING. The app says what its settings may be, and what does not fit is refused. Workers
    follow within seconds. Asks before it replaces a value. Creates a store as onefold run does.

    \b
    Example:
        onefold settings put whales.subscribers subscribers.json
    """
    options, who, value = asked(), operator(by), _read(file)
    _check(name, value)
    check_named(found_store(options), "settings put")
    # What a worker follows is put before its first run: then the store is made here.
    with opened(options, create=True) as store:
        stands = store.run(get(name))
        number = stands.number if stands else 0
        if over is not None and over != number:
            raise _changed(name, f"number {number} stands, not {over}")
        if stands and not agreed(options, f"Replace {name}, number {number}, put by {stands.by}?"):
            return Code.FAILED
        stored = store.run(put(name, value, who, current().token(), number), UNSURE)
    if stored is None:
        raise _changed(name, "somebody else put it meanwhile")
    if options.json:
        emit(_json(name, stored))
    else:
        data(f"{name} is number {stored.number} now, put by {stored.by}")
    return Code.FINE


def _check(name: str, value: Any) -> None:
    if not name.startswith("endpoints."):
        return checked(name, value, _declared(name))
    from onefold.core.endpoints import check_put

    check_put(value)
    return checked(name, value, None)


def _changed(name: str, reason: str) -> Problem:
    return Problem(
        Code.FAILED, Facts("it changed meanwhile", reason, steps=(f"onefold settings get {name} --json",))
    )


def _read(file: str | None) -> Any:
    import json
    import tomllib

    if file is None and sys.stdin.isatty():
        raise click.UsageError("name a FILE, or pipe JSON in")
    where = "standard input" if file in (None, "-") else file
    try:
        text = sys.stdin.read() if file in (None, "-") else Path(str(file)).read_text("utf-8")
        return tomllib.loads(text) if str(file).endswith(".toml") else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{where} cannot be read: {error}") from error


def _declared(name: str) -> Any:
    """Return the type that an app declares for a setting; None if nobody says what it may be."""
    from onefold.worker.configuration import nearest
    from onefold.worker.loading import parted

    app, _, setting = name.partition(".")
    found = nearest()
    known = _apps(found.apps)
    if app not in known:
        near = get_close_matches(app, known, 1)
        if near:
            raise Misconfigured(f"there is no app {app!r}: did you mean {near[0]}?")
        say(f"No app declares {name}: it is stored as it is.")
        return None
    live = parted(app, found.apps[app], found.folder)[0].live if app in found.apps else _built_in(app)
    if setting not in live:
        near = get_close_matches(setting, live, 1)
        hint = f"did you mean {app}.{near[0]}?" if near else f"it has {', '.join(live) or 'none'}"
        raise Misconfigured(f"the app {app} has no live setting {setting!r}: {hint}")
    return live[setting]


def _apps(sections: dict[str, Any]) -> list[str]:
    from onefold.worker.apps import built_in

    return [*sections, *built_in()]


def _built_in(app: str) -> Any:
    from onefold.worker.apps import load

    return load(app).live
