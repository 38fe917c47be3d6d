"""`onefold list`: open entries, one per line, page by page through the store's index of open entries."""

from __future__ import annotations

from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import awaits, ending_json, entry_json, key_json, silent
from onefold.cli.frame import Command, asked
from onefold.cli.keys import spelled_out
from onefold.cli.opened import opened
from onefold.cli.talk import data, emit, say
from onefold.core.entry import OPEN, STATES, Seen, State
from onefold.core.key import Key
from onefold.core.reasons import carried
from onefold.core.story import command, moment

_ROW = "{:<6}  {:<13}  {:>3}  {:<20}  {:<20}  {}"
_HEAD = _ROW.format("state", "why", "try", "since", "next", "key")


@click.command("list", cls=Command)
@click.option("--parked", is_flag=True, help="What waits for a decision.")
@click.option("--held", is_flag=True, help="What may be happening now.")
@click.option("--free", is_flag=True, help="What did not happen yet.")
@click.option("--done", is_flag=True, help="What happened, by a walk over everything.")
@click.option("--scope", metavar="SCOPE", help="Only this scope.")
def list_(parked: bool, held: bool, free: bool, done: bool, scope: str | None) -> int:
    """List open entries: all of them, or those in the named states.

    With --json one object per line. `try` is how often it was tried, `next` what it waits for. `key` is
    what `onefold why`, `resolve` and `retry` take. Done entries are listed only with --done.

    \b
    Example:
        onefold list --parked --scope charges
    """
    options = asked()
    wanted = {"parked": parked, "held": held, "free": free, "done": done}
    states = tuple(state for state in STATES if wanted[state]) or OPEN
    some = False
    with opened(options) as store:
        for entries in filter(None, store.found(scope, states)):
            if options.json:
                emit(*(_json(key, seen) for key, seen in entries))
            else:
                data(*(() if some else (_HEAD,)), *(_row(key, seen) for key, seen in entries))
            some = True
    if not some and not options.json:
        say(f"Nothing is {_either(states)}.")
    return Code.FINE


def _either(states: tuple[State, ...]) -> str:
    return ", ".join(states[:-1]) + " or " + states[-1] if len(states) > 1 else states[0]


def _row(key: Key, seen: Seen) -> str:
    entry = seen.entry
    assert entry is not None, "a list holds what is stored"
    why = "silent" if silent(seen) else entry.why or "-"
    return _ROW.format(entry.state, why, entry.attempt, moment(entry.written), awaits(entry), key)


def _json(key: Key, seen: Seen) -> dict[str, Any]:
    entry = seen.entry
    assert entry is not None, "a list holds what is stored"
    key = spelled_out(key, entry)
    told = {**key_json(key), **entry_json(entry), **ending_json(carried(entry)), "silent": silent(seen)}
    return {**told, "command": command("why", key)}
