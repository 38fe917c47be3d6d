"""`onefold resolve` and `onefold retry`: what only a person can decide about a key.

A decision holds for the version that was shown, and for no other; it is noted with the operator's name
before it is written. What is safe is decided in `core`, never here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, NamedTuple, get_args

import click

from onefold.cli.codes import Code
from onefold.cli.facts import key_json, waits
from onefold.cli.frame import Asked, Command, asked
from onefold.cli.keys import find_key, names_a_key
from onefold.cli.opened import Opened, opened
from onefold.cli.problems import NOTHING_RAN, Facts, Problem
from onefold.cli.talk import agreed, data, emit, operator, say
from onefold.cli.text import counted, cut
from onefold.core import operate
from onefold.core.claims import Answer, may_retry
from onefold.core.entry import BODY_LIMIT, Entry, Seen, Why
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.reasons import carried
from onefold.core.story import command, moment, next_steps, tell
from onefold.runtime import current

_LEFT = {"lost": "changed meanwhile", "unknown": "not confirmed"}
_TOLD = {"retried": "made due", "resolved": "resolved"}
ERROR_SHOWN = 100

UNSURE = "no effect ran; whether the decision was written is not known"

PREVIEW = 20
"""How many keys of a scope are shown before a person is asked about all of them."""

_by = click.option("--by", metavar="NAME", help="Who decides; else the login name.")
_reason = click.option("--reason", metavar="TEXT", default="", help="Why; kept, and shown by `onefold why`.")


class Decision(NamedTuple):
    """What a person says about parked keys, and who says it."""

    happened: bool
    body: str | None
    by: str
    reason: str

    @property
    def meaning(self) -> str:
        return "it happened, never run it" if self.happened else "it did not happen, run it again"


# ----- resolve


@click.command("resolve", cls=Command)
@names_a_key(required=False)
@click.option("--scope", "whole", metavar="SCOPE", help="Everything that is parked in this scope.")
@click.option("--why", type=click.Choice(get_args(Why)), help="With --scope: only what is parked for this.")
@click.option(
    "--happened/--did-not-happen", default=None, help="What you found out: it took place, or it did not."
)
@click.option("--receipt", metavar="JSON", help="With --happened: what later callers get; else null.")
@_reason
@_by
def resolve(
    scope: str | None,
    parts: tuple[str, ...],
    digest: str | None,
    whole: str | None,
    why: Why | None,
    happened: bool | None,
    receipt: str | None,
    reason: str,
    by: str | None,
) -> int:
    """Decide about a parked key, or about all that are parked in a scope.

    Find out what really took place first, where the effect would show. --happened makes it done,
    for good. --did-not-happen frees it, so that it runs again: say so only if the old attempt can
    no longer take place. The record and the last error stay with the decision.

    The key is named by its scope and parts, or by the label that `onefold list` and logs print. With
    --scope the command shows what it would resolve, and asks; -y answers yes. It then exits with 3 if
    something of that changed meanwhile and is left.

    \b
    Example:
        onefold resolve charges A-17 --happened --receipt '"ch_314"'
    """
    if happened is None:
        raise click.UsageError("say what took place: --happened or --did-not-happen")
    if receipt is not None and not happened:
        raise click.UsageError("--receipt goes with --happened: what did not happen has none")
    _check_target(scope, digest, whole)
    if whole is None and why is not None:
        raise click.UsageError("--why goes with --scope: a key is parked for one reason only")
    if whole is not None and receipt is not None:
        raise click.UsageError(
            "--receipt goes with one key: the effects of a scope have receipts of their own"
        )
    body = _checked("null" if receipt is None else receipt) if happened else None
    options, decision = asked(), Decision(happened, body, operator(by), reason)
    with opened(options) as store:
        if scope is None:
            return _resolve_scope(store, whole or "", why, decision, options)
        return _resolve_key(store, *find_key(store, scope, parts, digest), decision, options)


def _check_target(scope: str | None, digest: str | None, whole: str | None) -> None:
    if (scope is None) == (whole is None) or (whole and digest):
        raise click.UsageError("name a key, or a whole scope with --scope")


def _resolve_key(store: Opened, key: Key, seen: Seen, decision: Decision, options: Asked) -> int:
    if seen.entry is None or seen.entry.state != "parked":
        raise _nothing_to_decide(key, seen, store)
    if not _sure(options, f"{tell(key, seen)}\nWrite that {decision.meaning}?"):
        return Code.FAILED
    return _told(store.run(_resolving(key, seen.entry, decision), UNSURE), key, store, options)


def _resolving(key: Key, shown: Entry, decision: Decision) -> Flow[Answer]:
    happened, body, by, reason = decision
    return operate.resolve(key, happened, body, by, current().token(), shown, reason)


def _resolve_scope(store: Opened, scope: str, why: Why | None, decision: Decision, options: Asked) -> int:
    """Show what is parked in a scope, ask, and decide about each entry on the version that was shown."""
    parked = [
        (key, seen.entry)
        for entries in store.found(scope, ("parked",))
        for key, seen in entries
        if seen.entry and why in (None, seen.entry.why)
    ]
    if parked:
        number = counted(len(parked), "entry", "entries")
        question = f"Write of {number} that {decision.meaning}?"
        if not _sure(options, "\n".join((*_preview(scope, parked), question))):
            return Code.FAILED
    came = Counter[str]()
    for key, entry in parked:
        state = store.run(
            _resolving(key, entry, decision), f"no effect ran; {came['settled']:,} were resolved before"
        ).state
        came[_LEFT.get(state, state)] += 1
    return _told_scope(scope, ("resolved", came.pop("settled", 0)), came, options)


def _preview(scope: str, parked: Sequence[tuple[Key, Entry]]) -> Iterator[str]:
    whys = Counter(entry.why or "by-hand" for _, entry in parked)
    told = ", ".join(f"{number:,} {why}" for why, number in sorted(whys.items()))
    yield f"{counted(len(parked), 'entry', 'entries')} of {scope} would be resolved ({told}):"
    for key, entry in parked[:PREVIEW]:
        error = carried(entry).get("error")
        told = f"  {cut(str(error), ERROR_SHOWN)}" if error else ""
        yield f"  {entry.why or 'by-hand':<13}  {moment(entry.written)}  {key}{told}"
    if len(parked) > PREVIEW:
        more = f"  and {len(parked) - PREVIEW:,} more; see `onefold list --parked --scope {quote(scope)}`"
        yield more


def _checked(text: str) -> str:
    """Return a receipt as the ledger keeps it, if the ledger can read it again."""
    import msgspec

    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"--receipt is no JSON: {error}") from error
    body = msgspec.json.format(text, indent=-1)
    if len(body.encode()) > BODY_LIMIT:
        raise click.UsageError(
            f"--receipt has {len(body.encode()):,} bytes of JSON, and {BODY_LIMIT:,} are kept"
        )
    return body


def _nothing_to_decide(key: Key, seen: Seen, store: Opened) -> Problem:
    steps = (command("why", key, *store.options),)
    return Problem(Code.FAILED, Facts("there is nothing to decide", tell(key, seen), steps=steps))


# ----- retry


@click.command("retry", cls=Command)
@names_a_key(required=False)
@click.option("--scope", "whole", metavar="SCOPE", help="Everything in this scope that is safe to run again.")
@_reason
@_by
def retry(
    scope: str | None,
    parts: tuple[str, ...],
    digest: str | None,
    whole: str | None,
    reason: str,
    by: str | None,
) -> int:
    """Make a key due now, where a second run is safe.

    Its attempts are counted anew. What is in doubt is refused with 5, because a second run could
    double it: find out what took place, then use `onefold resolve`. The key is named by its scope and
    parts, or by the label that `onefold list` and logs print. With --scope everything in the scope that
    is safe is made due; exits with 3 if something is left.

    \b
    Example:
        onefold retry charges A-17
    """
    _check_target(scope, digest, whole)
    options, who = asked(), operator(by)
    with opened(options) as store:
        if scope is None:
            return _retry_scope(store, whole or "", who, reason, options)
        return retry_key(store, *find_key(store, scope, parts, digest), who, reason, options)


def retry_key(store: Opened, key: Key, seen: Seen, who: str, reason: str, options: Asked) -> int:
    """Make one key due, as it was shown."""
    if seen.entry is None or seen.entry.state in ("held", "done"):
        raise _not_waiting(key, seen, store)
    if not may_retry(seen.entry):
        raise _may_double(key, seen, store)
    if not _sure(options, f"{tell(key, seen)}\nRun it again?"):
        return Code.FAILED
    flow = operate.retry(key, who, current().token(), seen.entry, reason)
    return _told(store.run(flow, UNSURE), key, store, options)


def _not_waiting(key: Key, seen: Seen, store: Opened) -> Problem:
    steps = (command("why", key, *store.options),)
    return Problem(Code.FAILED, Facts("there is nothing to retry", tell(key, seen), steps=steps))


def _may_double(key: Key, seen: Seen, store: Opened) -> Problem:
    facts = Facts(
        "a second run could double it", tell(key, seen), steps=tuple(next_steps(key, seen, *store.options))
    )
    return Problem(Code.UNSAFE, facts)


def _retry_scope(store: Opened, scope: str, who: str, reason: str, options: Asked) -> int:
    """Retry page by page, each entry on the version that was read; count what is left, and why."""
    safe = sum(_wanted(seen) for entries in store.found(scope, ("free", "parked")) for _, seen in entries)
    if safe and not _sure(options, f"Run {counted(safe, 'entry', 'entries')} of {scope} again?"):
        return Code.FAILED
    came = Counter[str]()
    for entries in store.found(scope, ("free", "parked")):
        for key, seen in entries:
            if _wanted(seen):
                flow = operate.retry(key, who, current().token(), seen.entry, reason)
                state = store.run(flow, f"no effect ran; {came['settled']:,} were made due before").state
                came[_LEFT.get(state, state)] += 1
            elif seen.entry and seen.entry.state == "parked":
                came[seen.entry.why or "by-hand"] += 1
    return _told_scope(scope, ("retried", came.pop("settled", 0)), came, options)


def _wanted(seen: Seen) -> bool:
    """Say whether a retry of a whole scope takes this one: safe, and not due already."""
    return seen.entry is not None and may_retry(seen.entry) and (seen.entry.state == "parked" or waits(seen))


# ----- both


def _told_scope(scope: str, done: tuple[str, int], left: Counter[str], options: Asked) -> int:
    verb, number = done
    if options.json:
        emit({"scope": scope, verb: number, "left": dict(sorted(left.items()))})
    else:
        data(f"{counted(number, 'entry', 'entries')} of {scope} {_TOLD[verb]}")
        for why, number in sorted(left.items()):
            say(f"{counted(number, 'entry', 'entries')} left: {why}")
        if left:
            say(f"See `onefold list --parked --scope {quote(scope)}`.")
    return Code.PERSON if left else Code.FINE


def _sure(options: Asked, question: str) -> bool:
    *before, last = question.split("\n")
    say(*before)
    return agreed(options, last)


def _told(answer: Answer, key: Key, store: Opened, options: Asked) -> int:
    """Say what came of a decision."""
    look = (command("why", key, *store.options),)
    if answer.state == "unknown":
        raise Problem(
            Code.UNREACHABLE, Facts("the store did not confirm", "", store.url, store.origin, UNSURE, look)
        )
    if answer.state != "settled" or answer.entry is None:
        reason = f"{tell(key, Seen(answer.entry))} It is not as it was shown."
        raise Problem(Code.FAILED, Facts("it changed meanwhile", reason, effect=NOTHING_RAN, steps=look))
    if options.json:
        emit(_json(key, answer.entry))
    else:
        data(tell(key, Seen(answer.entry)))
    return Code.FINE


def _json(key: Key, entry: Entry) -> dict[str, Any]:
    return {**key_json(key), "state": entry.state, "version": entry.version}
