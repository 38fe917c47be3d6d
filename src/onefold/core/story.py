"""One sentence for every state of a key: what is known, and what can be done next.

The command line, the console and the errors tell the same story because it is told here. Nothing
in here asks a store or decides.
"""

from __future__ import annotations

from datetime import UTC, datetime

from onefold.core.claims import may_retry
from onefold.core.entry import Entry, Seen
from onefold.core.key import Key

_PARKED = {
    "in-doubt": "it may have happened, and running it again could double it",
    "failed": "it did not happen, and no worker tries it again by itself",
    "by-hand": "it was set aside by hand",
    "beyond-memory": "its record is older than the ledger's memory, so it may have been done before",
}


def tell(key: Key, seen: Seen) -> str:
    """Say in one sentence what is known of a key."""
    entry = seen.entry
    if entry is None:
        return f"{key} was never claimed, as far as this ledger remembers."
    return f"{key} {_told(entry, seen)}."


def _told(entry: Entry, seen: Seen) -> str:
    match entry.state:
        case "done":
            return f"is done since {moment(entry.written)}; {_memory(entry)}"
        case "parked":
            reason = _PARKED[entry.why or "by-hand"]
            tried = f"; {_tried(entry)}" if entry.why == "failed" else ""
            return f"is parked ({entry.why}) since {moment(entry.written)}: {reason}{tried}"
        case "free":
            return f"did not happen yet; {_tried(entry)}, {_waits(entry, seen.idle)}"
        case _ if seen.stood < entry.lease:
            return f"is held: it may be happening now; its lease ends in {span(entry.lease - seen.stood)}"
        case _:
            return (
                f"is held, but its holder fell silent: the lease ended {span(seen.stood - entry.lease)} ago"
            )


def _memory(entry: Entry) -> str:
    if entry.expires is None:
        return "it is remembered for ever"
    return f"it is remembered until {moment(entry.expires)}"


def _tried(entry: Entry) -> str:
    return (
        "it was not tried"
        if not entry.attempt
        else f"it was tried {entry.attempt} time{'s' * (entry.attempt > 1)}"
    )


def _waits(entry: Entry, idle: float) -> str:
    left = (entry.not_before or 0.0) - entry.written - idle
    return f"and waits {span(left)} for its next attempt" if left > 0 else "and may run at any time"


def next_steps(key: Key, seen: Seen, *options: str) -> list[str]:
    """Name the commands that can follow, the safest first; `options` say where the store is."""
    entry = seen.entry
    if entry is None or entry.state != "parked":
        return []
    answers = ("--happened", "--did-not-happen")
    decide = [command("resolve", key, answer, *options) for answer in answers]
    return [command("retry", key, *options), *decide] if may_retry(entry) else decide


def command(verb: str, key: Key, *options: str) -> str:
    """Write a command about a key, to be copied into a shell."""
    words = key.spelled
    parts = [*options, words] if "-- " in words else [words, *options]
    return " ".join(["onefold", verb, *parts])


def moment(at: float) -> str:
    """Write a point in time, in UTC, to the second; one that no calendar has, as it is stored."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f} s after 1970"


def span(seconds: float) -> str:
    """Write a duration in the two largest units that say something."""
    if seconds == float("inf"):
        return "for ever"
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    for unit, size, below, smaller in (("d", 86400, 3600, "h"), ("h", 3600, 60, "m"), ("m", 60, 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
