"""`onefold why`: the story of one key: what is known, what people did about it, what can be done next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.facts import awaits, ending_json, entry_json, iso, key_json
from onefold.cli.frame import Command, asked
from onefold.cli.keys import find_key, names_a_key
from onefold.cli.opened import Opened, opened
from onefold.cli.talk import data, emit
from onefold.cli.text import cut, pairs, shown
from onefold.core.audit import acts
from onefold.core.entry import Entry, Seen
from onefold.core.key import Key
from onefold.core.reasons import carried
from onefold.core.story import moment, next_steps, span, tell

BODY_SHOWN = 400
Acts = Sequence[dict[str, Any]]


@click.command("why", cls=Command)
@names_a_key()
def why(scope: str, parts: tuple[str, ...], digest: str | None) -> int:
    """Tell the story of one key, and what can be done next.

    What is known of it, what people did about it, and the commands that can follow. The key is named by
    its scope and parts, or by the label that `onefold list` and logs print, as in `charges/A-17`. Exits
    with 0 if something is known, 1 if the key was never claimed, 3 if it is parked. A part that starts
    with a dash goes after `--`.

    \b
    Example:
        onefold why charges A-17
    """
    options = asked()
    with opened(options) as store:
        key, seen = find_key(store, scope, parts, digest)
        done = store.run(acts(key))
        if options.json:
            emit(_json(key, seen, done, store))
        else:
            _print(key, seen, done, store)
    return _code(seen.entry)


def _code(entry: Entry | None) -> Code:
    if entry is None:
        return Code.FAILED
    return Code.PERSON if entry.state == "parked" else Code.FINE


def _json(key: Key, seen: Seen, done: Acts, store: Opened) -> dict[str, Any]:
    return {
        **key_json(key),
        "sentence": tell(key, seen),
        "entry": entry_json(seen.entry) if seen.entry else None,
        **ending_json(_ending(seen.entry, done)),
        "acts": [{**act, "at": iso(_at(act))} for act in done],
        "next": next_steps(key, seen, *store.options),
        "store": store.safe_url,
        "origin": store.origin,
    }


def _ending(entry: Entry | None, done: Acts) -> dict[str, Any]:
    """Give the record and how its last attempt ended, from the entry or from the decision that settled it."""
    if entry is None or entry.state != "done":
        return carried(entry) if entry else {}
    # A decision writes the next version; what is done since then has another one.
    settled = [act for act in done if act.get("happened") and act.get("version") == entry.version - 1]
    found = settled[-1].get("found") if settled else None
    return found if isinstance(found, dict) else {}


def _print(key: Key, seen: Seen, done: Acts, store: Opened) -> None:
    data(tell(key, seen))
    if seen.entry:
        data("", *pairs(_facts(key, seen.entry, done, store)))
    if done:
        data("", "What people did (UTC)", *map(_act, done))
    if steps := next_steps(key, seen, *store.options):
        data("", "What can be done next", *(f"  {step}" for step in steps))


def _facts(key: Key, entry: Entry, done: Acts, store: Opened) -> list[tuple[str, str]]:
    """Give what is stored, in the order in which a person asks for it."""
    body = "receipt" if entry.state == "done" else "carries"
    return [
        ("state", f"{entry.state} ({entry.why})" if entry.why else entry.state),
        ("effect", entry.effect),
        ("attempts", str(entry.attempt)),
        ("begun", moment(entry.begun) if entry.begun is not None else ""),
        ("written", moment(entry.written)),
        ("lease", span(entry.lease) if entry.state == "held" else ""),
        ("next", awaits(entry)),
        ("forgotten", moment(entry.expires) if entry.expires is not None else ""),
        ("source", entry.source),
        *_record(_ending(entry, done)),
        (body, _body(entry)),
        ("fence", str(entry.fence)),
        ("id", key.id.hex()),
        ("store", f"{store.safe_url}  (from {store.origin})"),
    ]


def _body(entry: Entry) -> str:
    """Show what is stored, unless it only says how the last attempt ended: lines of their own tell that."""
    text = carried(entry)
    return cut(shown(entry.body or ""), BODY_SHOWN) if not text or "record" in text else ""


def _record(text: dict[str, Any]) -> list[tuple[str, str]]:
    """Tell the record that an entry kept: which, for whom, and how the last attempt ended."""
    record = text.get("record") or {}
    error, reason = text.get("error"), text.get("reason")
    return [
        ("record", str(record.get("id") or "")),
        ("for", str(text.get("for") or "")),
        ("last error", cut(shown(str(error)), BODY_SHOWN) if error else ""),
        ("reason", cut(shown(str(reason)), BODY_SHOWN) if reason else ""),
    ]


def _act(act: dict[str, Any]) -> str:
    at, happened = _at(act), act.get("happened")
    decided = "" if happened is None else f": it {'happened' if happened else 'did not happen'}"
    was = f", was {act['was']}" if "was" in act else ""
    because = f", because {cut(shown(str(act['reason'])), BODY_SHOWN)}" if act.get("reason") else ""
    return f"  {'?' if at is None else moment(at)}  {act.get('by')}  {act.get('act')}{decided}{was}{because}"


def _at(act: dict[str, Any]) -> float | None:
    at = act.get("at")
    return at if isinstance(at, int | float) else None
