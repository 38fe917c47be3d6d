"""What both colours of a claim share: what is known of it, and what its end means for the caller.

It drives no flow and waits for nothing; `blocking` and `awaited` do.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, Literal, NamedTuple, TypeVar

from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import Entry, Seen
from onefold.core.errors import Busy, LostClaim, Misconfigured, Mismatch, Parked, Unreachable, Unsettled
from onefold.core.key import Key
from onefold.core.pulse import Pulse
from onefold.core.story import tell
from onefold.ledger.receipts import decode, encode
from onefold.ledger.ways import Way, for_call

PROBES = 3
"""How often a probe is asked anew, in one call, because the entry changed while it looked."""


class Outcome(NamedTuple):
    """What came of a call: it ran here, was done before, is busy elsewhere, or waits for a decision."""

    state: Literal["ran", "done", "busy", "parked"]
    receipt: Any
    entry: Entry | None
    wait: float = 0.0
    """If busy: seconds after which asking again makes sense."""


class Holding:
    """A claim, won or not."""

    __slots__ = ("_context", "_ledger", "bid", "entry", "finished", "key", "pulse", "state", "wait", "way")

    def __init__(self, ledger: Any, bid: Bid, way: Way, answer: Answer) -> None:
        entry = answer.entry
        self._ledger = ledger
        self.key = bid.key
        self.bid = bid
        self.way = way
        self.entry = entry
        self.wait = answer.wait
        self._context: Token[Holding | None] | None = None
        self.pulse: Pulse | None = None
        if answer.state == "won" and entry:
            self.state: Literal["won", "done", "busy", "parked"] = "won"
            self.finished = False
            self.pulse = Pulse.of(Hold(bid.key, bid.token, entry, answer.since), bid.terms)
            return
        self.state = _shown(answer)
        self.finished = True
        if answer.state == "mismatch":
            raise Mismatch(bid.key)

    @property
    def token(self) -> str:
        """Names this attempt; a far side that takes an idempotency key may be given the key instead."""
        return self.bid.token

    @property
    def won(self) -> bool:
        """Whether the effect is this caller's to run."""
        return self.state == "won"

    @property
    def fence(self) -> int:
        """Grows with every attempt; a sink that remembers the largest can refuse a stale writer."""
        return self.entry.fence if self.entry else 0

    @property
    def receipt(self) -> Any:
        """What the effect returned when it was done before, as plain JSON values; None otherwise."""
        return decode(self.key, self.entry) if self.state == "done" and self.entry else None

    @property
    def lost(self) -> bool:
        """Whether the lease can no longer be relied upon: another may be at work."""
        return self.pulse is not None and not self.finished and self.pulse.gone(time.monotonic())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} {self.state}>"

    def hold(self) -> Hold:
        """Return what is held, or say why nothing can be written."""
        if self.pulse is None:
            raise Misconfigured(
                f"{self.key} was not won here but is {self.state}: there is nothing to settle"
            )
        if self.finished:
            raise Misconfigured(f"{self.key} was settled, released or parked here before")
        return self.pulse.hold

    def conclude(self, ending: Ending, answer: Answer, receipt: Any) -> None:
        """Take in what the store said of the end; raise what the caller must know."""
        if answer.state == "lost":
            raise LostClaim(self.key)
        if answer.state == "unknown" and ending.kind == "returned":
            raise Unsettled(self.key, receipt)
        if answer.state == "unknown":
            raise Unreachable(f"the store did not confirm the end of {self.key}; its lease will run out")
        self.entry = answer.entry

    def make_current(self) -> None:
        self._context = _CURRENT.set(self)

    def make_past(self) -> None:
        if self._context is not None:
            _CURRENT.reset(self._context)
            self._context = None


_CURRENT: ContextVar[Holding | None] = ContextVar("onefold_claim", default=None)


def current_claim() -> Holding:
    """Return the claim under which this code runs: its key, its fence, and whether it was lost."""
    holding = _CURRENT.get()
    if holding is None:
        raise Misconfigured(
            "no claim is running here: call this inside a protected function or a claim's block"
        )
    return holding


def outcome(key: Key, answer: Answer, returns: Any) -> Outcome:
    """Tell the caller why the effect did not run."""
    state, entry = answer.state, answer.entry
    if state == "done" and entry:
        return Outcome("done", decode(key, entry, returns), entry)
    if state == "mismatch":
        raise Mismatch(key)
    return Outcome("parked" if state == "parked" else "busy", None, entry, answer.wait)


def _shown(answer: Answer) -> Literal["won", "done", "busy", "parked"]:
    match answer.state:
        case "done" | "parked":
            return answer.state
        case _:
            return "busy"


_NOTHING_KEPT = Ending("returned", encode(None))


def returned(key: Key, receipt: Any) -> Ending:
    """Say that an effect happened, with what is kept of its receipt."""
    return _NOTHING_KEPT if receipt is None else Ending("returned", kept(key, receipt))


def kept(key: Key, receipt: Any) -> str | None:
    """Write a receipt for the entry; one that cannot be stored still settles, with a warning."""
    try:
        return encode(receipt)
    except ValueError as error:
        warnings.warn(f"{key} is done, but its receipt is not kept: {error}", RuntimeWarning, stacklevel=5)
        return None


def bidder(
    function: Callable[..., Any], scope: str, key: Callable[..., Any], way: Way
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Bid, Way]]:
    """Return what makes a bid from a call's arguments, with defaults filled in."""
    signature = inspect.signature(function)
    has_defaults = any(one.default is not one.empty for one in signature.parameters.values())

    def bid(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bid, Way]:
        if has_defaults:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        parts = key(*args, **kwargs)
        name = Key(scope, *parts) if isinstance(parts, tuple) else Key(scope, parts)
        content = way.content(*args, **kwargs) if way.content else None
        return way.bid(name, content), for_call(way, args, kwargs)

    return bid


def received(key: Key, outcome: Outcome) -> Any:
    """Turn an outcome into what a protected function returns or raises."""
    if outcome.state == "busy":
        raise Busy(key, outcome.wait)
    if outcome.state == "parked":
        raise Parked(key, (outcome.entry and outcome.entry.why) or "by-hand")
    return outcome.receipt


def in_doubt(answer: Answer) -> Entry | None:
    """Return the entry a probe may be asked about, if there is one."""
    entry = answer.entry
    return entry if answer.state == "parked" and entry and entry.why == "in-doubt" else None


def probe_answer(told: object) -> tuple[Happened | CannotHappen | None, str | None]:
    """Read what a probe answered; True or False could be taken for an answer, and say nothing clear."""
    if isinstance(told, Happened):
        return told, encode(told.receipt)
    if told is None or isinstance(told, CannotHappen):
        return told, None
    raise Misconfigured(
        f"a probe answered {told!r:.80}: answer Happened(receipt), CannotHappen() or None for unknown"
    )


def resolved(key: Key, answer: Answer) -> None:
    """Raise if a person's decision was not written."""
    if answer.state == "unknown":
        raise Unreachable(
            f"the store did not confirm the decision about {key}; look with `onefold why {key.spelled}`"
        )
    if answer.state != "settled":
        raise Misconfigured(f"nothing to resolve: {tell(key, Seen(answer.entry))}")


H = TypeVar("H", bound=Holding)


def ended(claims: Sequence[H], endings: Sequence[Ending], answers: Sequence[Answer]) -> list[H]:
    """Return the claims that were lost; raise if the store did not say."""
    unknown = [claim for claim, answer in zip(claims, answers, strict=True) if answer.state == "unknown"]
    if unknown and endings[0].kind == "returned":
        raise Unsettled(unknown[0].key)
    if unknown:
        raise Unreachable(f"the store did not confirm the end of {len(unknown)} claims")
    return [claim for claim, answer in zip(claims, answers, strict=True) if answer.state == "lost"]


def only_plain(way: Way) -> None:
    """Refuse what makes no sense for many keys at once."""
    for name, given in (("probe", way.probe), ("content", way.content), ("wait", way.wait)):
        if given:
            raise Misconfigured(f"{name}= is for one key at a time: use claim or call")


def mark_name(bid: Bid) -> str:
    """Name the point in the caller's transaction to which a failed joined effect goes back."""
    return f"onefold_{bid.token}"
