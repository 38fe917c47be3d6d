"""Moves what another system remembers into a ledger: one write per key, and only where nothing stands.

So it can be run again, and while workers run; whatever a ledger knows already stays as it is. What a row of
the other system means is decided by an application. This module must not know any of them.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from onefold.core import claims
from onefold.core.claims import Answer, Ending, Hold
from onefold.core.entry import Change, Effect, Entry, Seen
from onefold.core.errors import Misconfigured, Unreachable
from onefold.core.flow import get
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.core.protocol import ask
from onefold.core.terms import Seconds, Terms
from onefold.drive import Ports, run
from onefold.stores import connect
from onefold.stores.locate import locate

BATCH = 500

Fate = Literal["done", "in-doubt", "free"]
Became = Literal["done", "in-doubt", "free", "known"]


class Memory(NamedTuple):
    """What another system remembers of a key."""

    key: Key
    fate: Fate
    effect: Effect = "one-shot"
    begun: float | None = None
    receipt: str | None = None
    """What came of it, as JSON."""
    keep: Seconds | None = None
    """For how much longer it is to be remembered as done; None for ever."""
    source: str = ""
    told: str = ""
    """What the other system says about it, for whoever has to decide."""


MILLISECONDS = Decimal(10) ** 11
"""Numbers from here on are milliseconds since 1970, smaller ones are seconds: 1973 parts the two."""


LATEST = 253_402_300_800.0
"""The end of the year 9999, the last one that a calendar can show."""


def moment(value: Any, what: str) -> float | None:
    """Read a time that another system wrote: a datetime, seconds or milliseconds since 1970, or ISO text.

    Without a zone it is in UTC. None stays None; `what` names it, if it is no time.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str) and "T" in value:
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        number = Decimal(str(value))
        at = float(number / 1000 if number >= MILLISECONDS else number)
        if 0 < at < LATEST:
            return at
    except (ValueError, ArithmeticError, RecursionError):
        pass
    raise Misconfigured(f"{what} is {reprlib.repr(value)}: that is no time")


def store_at(url: str | None = None) -> Store:
    """Open the store that a URL names, or the one that `onefold run` would take."""
    return connect(locate(url).url)


def move(memories: Iterable[Memory], store: str | None = None) -> Counter[Became]:
    """Write memories into the store that a URL names; count what became of them."""
    became: Counter[Became] = Counter()
    with closing(store_at(store)) as opened:
        for batch in _batches(memories):
            once = {memory.key.id: memory for memory in reversed(batch)}
            became.update(run(write(list(once.values())), Ports(opened)))
            became["known"] += len(batch) - len(once)
    return +became


def dynamodb_items(url: str) -> Iterator[dict[str, Any]]:
    """Give every item of a table of somebody else's, as DynamoDB writes it."""
    try:
        from onefold.stores.dynamodb.reading import items
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f'reading a table needs {error.name}, which is not installed: pip install "onefold[dynamodb]"'
        ) from error
    yield from items(url)


def _batches(memories: Iterable[Memory]) -> Iterator[list[Memory]]:
    left = iter(memories)
    while batch := list(islice(left, BATCH)):
        yield batch


async def write(memories: Sequence[Memory]) -> list[Became]:
    """Write each memory if nothing stands under its key; say in order what became of them."""
    seen = await get([memory.key for memory in memories])
    wanted = [decide(memory, one.entry) for memory, one in zip(memories, seen, strict=True)]
    asked = [at for at, change in enumerate(wanted) if change]

    def judge(at: int, change: Change, seen: Seen) -> Change | Answer:
        memory = memories[asked[at]]
        if seen.entry and change.entry and _is_ours(seen.entry, memory, change.entry.state):
            return Answer("settled", seen.entry)
        return decide(memory, seen.entry) or Answer("lost", seen.entry)

    answers = await ask([change for change in wanted if change], judge, leases=False) if asked else []
    if any(answer.state == "unknown" for answer in answers):
        raise Unreachable(
            "the store did not confirm all that was moved; run it again, nothing is moved twice"
        )
    became: list[Became] = ["known"] * len(memories)
    for at, answer in zip(asked, answers, strict=True):
        became[at] = memories[at].fate if answer.state == "settled" else "known"
    return became


def decide(memory: Memory, entry: Entry | None) -> Change | None:
    """Say what to write for a memory; None where something stands.

    One exception: what was moved in doubt, and was completed over there since, is settled, because its
    holder may still say how it ended until somebody decided about it.
    """
    if entry is None:
        keep = memory.keep if memory.fate == "done" else None
        return Change(memory.key, None, _entry(memory), keep=keep)
    if memory.fate != "done" or not _is_ours(entry, memory, "parked"):
        return None
    terms = Terms(keep="forever" if memory.keep is None else memory.keep)
    settled = claims.end(
        Hold(memory.key, entry.token, entry), entry, Ending("returned", memory.receipt), terms
    )
    return settled if isinstance(settled, Change) else None


def _is_ours(entry: Entry, memory: Memory, state: str) -> bool:
    return entry.token == _token(memory.key) and entry.state == state


def _token(key: Key) -> str:
    """Name the attempt of the other system: the same whenever it is moved."""
    return f"moved-{key.id.hex()[:26]}"


def _entry(memory: Memory) -> Entry:
    entry = Entry(
        "done",
        token=_token(memory.key),
        effect=memory.effect,
        attempt=1,
        label=memory.key.label,
        source=memory.source,
    )
    match memory.fate:
        case "done":
            return replace(entry, body=memory.receipt)
        case "in-doubt":
            return replace(entry, state="parked", why="in-doubt", begun=memory.begun, body=_body(memory))
        case "free":
            return replace(entry, state="free", body=_body(memory))


def _body(memory: Memory) -> str:
    """Write what an open entry keeps: not the record, which the other system did not keep either."""
    record = {"id": memory.key.label, "at": memory.begun or 0, "source": memory.source, "body": None}
    return json.dumps({"record": record, "error": memory.told, "cut": True}, separators=(",", ":"))
