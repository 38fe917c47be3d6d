"""`onefold cursors`: how far every source was read, and an operator's way to move one or to close a gap."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import error_json, iso, place
from onefold.cli.frame import Command, Group, asked
from onefold.cli.opened import Opened, opened
from onefold.cli.problems import Facts, Problem
from onefold.cli.talk import agreed, data, emit, operator, say
from onefold.cli.text import cut, table
from onefold.core.documents import listed
from onefold.core.story import moment, span
from onefold.runtime import current
from onefold.worker.liveness import behind, is_wrong, status_of
from onefold.worker.operating import Closing, Move, close, cursor, cursors, forward, gaps, move
from onefold.worker.progress import position

HEAD = ("pipeline", "source", "at", "lag", "status", "last run", "by")
UNSURE = "no effect ran; whether the cursor was moved is not known"
ERROR_SHOWN = 200

_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,9})?")

COMMANDS = {"set": "onefold.cli.cursors:set_", "close": "onefold.cli.cursors:close_"}


@click.group("cursors", cls=Group, late=COMMANDS, invoke_without_command=True)
@click.pass_context
def cursors_(context: click.Context) -> int:
    """Show how far every source was read, move a cursor, or close a gap.

    With --json one object per line. Stretches that could not be read are listed as gaps, until a person
    closes them. Exits with 3 if there are any, or if a source is failing or its workers are dead.

    \b
    Example:
        onefold cursors
    """
    if context.invoked_subcommand is not None:
        return Code.FINE
    options = asked()
    with opened(options) as store:
        found, missing = store.run(cursors()), store.run(gaps())
        told = {_name(one.value): one.value for _, one in store.run(listed("sources"))}
    found = [_as_of(current().time(), one, told.get(_name(one))) for one in found]
    if options.json:
        emit(*(_json(one, missing) for one in found))
    else:
        _print(found, missing)
    wrong = missing or any(is_wrong(str(one.get("status"))) for one in found)
    return Code.PERSON if wrong else Code.FINE


def _as_of(now: float, one: dict[str, Any], source: dict[str, Any] | None) -> dict[str, Any]:
    """Tell how a source does now: a dead worker no longer writes, so its cursor looks well for ever."""
    if source is None:
        return one
    status = status_of(source, now)
    return {**one, "lag": behind(source, now), **({"status": status} if is_wrong(status) else {})}


def _json(one: dict[str, Any], missing: list[dict[str, Any]]) -> dict[str, Any]:
    own = [gap for gap in missing if _name(gap) == _name(one)]
    told = {name: one.get(name) for name in ("pipeline", "source", "at", "lag", "status", "owner")}
    told["error"] = error_json(one.get("error"))
    told["time"] = iso(one.get("at")) if one.get("timed") else None
    return {**told, "ran": iso(one.get("ran")), "generation": position(one)[1], "gaps": own}


def _name(one: dict[str, Any]) -> tuple[Any, Any]:
    return one.get("pipeline"), one.get("source")


def _print(found: list[dict[str, Any]], missing: list[dict[str, Any]]) -> None:
    if not found:
        say("No source was read yet: a worker of this store writes its cursors as it reads.")
        return
    data(*table(HEAD, [_row(one) for one in found], right=(2, 3)))
    for one in found:
        if one.get("error"):
            say(f"{one['pipeline']}/{one['source']}: {cut(str(one['error']), ERROR_SHOWN)}")
    timed = {_name(one): bool(one.get("timed")) for one in found}
    for gap in missing:
        since, until = (place(gap.get(end), timed.get(_name(gap), False)) for end in ("since", "until"))
        said = f"{since} to {until} could not be read: {gap.get('reason')}"
        say(f"{gap.get('pipeline')}/{gap.get('source')}: gap, {said}")
    if missing:
        say("If its records came another way: onefold cursors close PIPELINE SOURCE UNTIL --reason TEXT")


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    lag, ran = one.get("lag"), one.get("ran")
    return (
        str(one.get("pipeline")),
        str(one.get("source")),
        place(one.get("at"), bool(one.get("timed"))),
        "-" if lag is None else span(lag),
        str(one.get("status", "-")),
        "-" if ran is None else moment(ran),
        str(one.get("moved_by") or one.get("owner") or "-"),
    )


# ----- moving one


@click.command("set", cls=Command)
@click.argument("pipeline")
@click.argument("source")
@click.argument("wanted", metavar="AT")
@click.option("--skip", is_flag=True, help="Also forward, past what was never read; leaves a gap.")
@click.option("--by", metavar="NAME", help="Who decides; else the login name.")
def set_(pipeline: str, source: str, wanted: str, skip: bool, by: str | None) -> int:
    """Move a cursor, so that its source is read again from there.

    AT is a number in the source's own order, a time with a zone (2026-01-31T12:00:00Z) for sources that
    order by time, or `start`. Going back repeats no effect: the ledger knows what was done. Going forward
    is refused with 5, unless --skip is given. A running worker follows at its next round.

    \b
    Example:
        onefold cursors set prices feed 0
    """
    options, who = asked(), operator(by)
    at = _place(wanted)
    with opened(options) as store:
        found = store.run(cursor(pipeline, source))
        if found is None:
            raise _unknown(pipeline, source, store)
        stood, generation = position(found.value)
        stands = place(stood.at, bool(found.value.get("timed")))
        if forward(found.value, at) and not skip:
            raise _would_lose(f"{pipeline}/{source} stands at {stands}, and {wanted} lies ahead of it")
        if not agreed(options, f"Move {pipeline}/{source} from {stands} to {wanted}?"):
            return Code.FAILED
        act = Move(pipeline, source, at, who, generation)
        moved = store.run(move(act, current().token()), UNSURE)
    if moved is None:
        reason = "another operator moved it meanwhile"
        raise Problem(Code.FAILED, Facts("it changed meanwhile", reason, steps=("onefold cursors",)))
    if options.json:
        emit(_json(moved, []))
    else:
        data(f"{pipeline}/{source} is read again from {wanted}")
    return Code.FINE


# ----- closing a gap


@click.command("close", cls=Command)
@click.argument("pipeline")
@click.argument("source")
@click.argument("until")
@click.option(
    "--reason", metavar="TEXT", required=True, help="Where its records came from, or why they need not."
)
@click.option("--by", metavar="NAME", help="Who decides; else the login name.")
def close_(pipeline: str, source: str, until: str, reason: str, by: str | None) -> int:
    """Close a gap, so that it is no longer counted as unread.

    UNTIL is where the gap ends, as `onefold cursors` shows it. Close one when its records came another way,
    as by a replay of an archive under the same keys, or when nobody wants them. No cursor moves.

    \b
    Example:
        onefold cursors close prices feed 5 --reason "replayed from the archive"
    """
    options, who = asked(), operator(by)
    with opened(options) as store:
        if not agreed(options, f"Close the gap of {pipeline}/{source} that ends at {until}?"):
            return Code.FAILED
        ends = [gap.get("until") for gap in store.run(gaps()) if _name(gap) == (pipeline, source)]
        # A gap is stored under its number; a person may name it by the time that was shown.
        named = next((str(end) for end in ends if until in (str(end), place(end, True))), until)
        wanted = Closing(pipeline, source, named, reason, who)
        closed = store.run(close(wanted, current().token()), "whether the gap was closed is not known")
        missing = [] if closed else store.run(gaps())
    if closed is None:
        raise _no_gap(wanted, missing)
    if options.json:
        emit({name: value for name, value in closed.items() if name != "set"})
    else:
        data(f"the gap of {pipeline}/{source} from {closed.get('since')} to {until} is closed")
    return Code.FINE


def _no_gap(wanted: Closing, missing: list[dict[str, Any]]) -> Problem:
    own = [str(gap.get("until")) for gap in missing if _name(gap) == (wanted.pipeline, wanted.source)]
    reason = f"its gaps end at {', '.join(own)}" if own else "it has none, or somebody closed it"
    what = f"no gap of {wanted.pipeline}/{wanted.source} ends at {wanted.until}"
    return Problem(Code.FAILED, Facts(what, reason, steps=("onefold cursors",)))


def _place(written: str) -> float | int | None:
    if written == "start":
        return None
    if _NUMBER.fullmatch(written):
        return float(written) if "." in written else int(written)
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise click.UsageError(
            f"AT is {written!r:.80}: write a number, a time with a zone (2026-01-31T12:00:00Z), or start"
        )
    return at.timestamp()


def _unknown(pipeline: str, source: str, store: Opened) -> Problem:
    known = [f"{one.get('pipeline')}/{one.get('source')}" for one in store.run(cursors())]
    reason = f"these are known: {', '.join(known)}" if known else "no source was read yet"
    steps = (" ".join(("onefold cursors", *store.options)),)
    return Problem(Code.FAILED, Facts(f"there is no cursor {pipeline}/{source}", reason, steps=steps))


def _would_lose(reason: str) -> Problem:
    steps = ("the same command with --skip, which leaves a gap that everybody sees",)
    return Problem(Code.UNSAFE, Facts("records in between would never be read", reason, steps=steps))
