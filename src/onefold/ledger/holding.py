"""What both colours of a claim share: what is known of it, and what its end means for the caller.

It drives no flow and waits for nothing; `blocking` and `awaited` do.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import ref

from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import Entry, Seen
from onefold.core.errors import (
    Busy,
    LostClaim,
    Misconfigured,
    Mismatch,
    Parked,
    Reentered,
    Unfinished,
    Unreachable,
    Unsettled,
)
from onefold.core.key import Key
from onefold.core.pulse import Pulse
from onefold.core.reasons import described, noted
from onefold.core.story import tell
from onefold.drive.functions import NO_GENERATORS, Kind, name_of, unfinished
from onefold.ledger.receipts import decode, encode, faithful, warn_unkept
from onefold.ledger.ways import Way, for_call
from onefold.runtime import current

PROBES = 3
"""How often a probe is asked anew, in one call, because the entry changed while it looked."""


class Outcome(NamedTuple):
    """What came of a call: it ran here, was done before, is busy elsewhere, or waits for a decision."""

    state: Literal["ran", "done", "busy", "parked"]
    receipt: Any
    entry: Entry | None
    wait: float = 0.0
    """If busy: seconds after which asking again makes sense."""
    own: bool = False
    """If busy: the caller itself holds the key, because this call is made inside of its own effect."""


class Holding:
    """A claim, won or not."""

    __slots__ = (
        "__weakref__", "_block", "_ledger", "bid", "entry", "finished", "key", "pulse", "state", "wait",
        "way",
    )  # fmt: skip

    def __init__(self, ledger: Any, bid: Bid, way: Way, answer: Answer) -> None:
        entry = answer.entry
        self._ledger = ledger
        self.key = bid.key
        self.bid = bid
        self.way = way
        self.entry = entry
        self.wait = answer.wait
        self._block: Block | None = None
        self.pulse: Pulse | None = None
        if answer.state == "won" and entry:
            self.state: Literal["won", "done", "busy", "parked"] = "won"
            self.finished = False
            self.pulse = Pulse.of(Hold(bid.key, bid.token, entry, answer.since), bid.terms)
            return
        self.state = "busy" if held_here(answer) else _shown(answer)
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
        return self.pulse is not None and not self.finished and self.pulse.gone(current().monotonic())

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

    def failed(self, error: BaseException) -> Ending:
        """Say how an exception ends this claim, with what people will want to know of it."""
        return self._noted(self.way.ending(error), error=described(error))

    def given_back(self, reason: str) -> Ending:
        """Say that nothing happened and anybody may try, and why."""
        return self._noted(Ending("refused", at_once=True), reason=reason)

    def set_aside(self, reason: str) -> Ending:
        """Say that a person has to decide, and why."""
        return self._noted(Ending("parked"), reason=reason)

    def _noted(self, ending: Ending, error: str = "", reason: object = "") -> Ending:
        body = self.entry.body if self.entry else None
        return ending._replace(body=noted(body, error=error, reason=reason))

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
        self._block = Block(self, _running())
        _CURRENT.set(self._block)

    def make_past(self) -> None:
        """Leave the block, in whichever context: a block may be left in another thread or task."""
        block, self._block = self._block, None
        if block is None:
            return
        block.leave()
        # `ContextVar.reset` raises in another context than that of `set`. There, the block is only marked.
        if _CURRENT.get() is block:
            _CURRENT.set(block.outer)


class Block:
    """A block of code under a claim. Contexts are copied, so a copy may still name a block that was left.

    An interrupt may end a block before it is left. So the claim is not kept here, but by the code that runs
    under it: a claim that nobody has any more must not be renewed for as long as this context lives.
    """

    __slots__ = ("_holding", "outer")

    def __init__(self, holding: Holding, outer: Block | None) -> None:
        self._holding: ref[Holding] | None = ref(holding)
        self.outer = outer

    @property
    def holding(self) -> Holding | None:
        """The claim; None once the block was left."""
        return self._holding() if self._holding is not None else None

    def leave(self) -> None:
        self._holding = None


_CURRENT: ContextVar[Block | None] = ContextVar("onefold_claim", default=None)


def _running() -> Block | None:
    """Return the innermost block that was not left."""
    block = _CURRENT.get()
    while block is not None and block.holding is None:
        block = block.outer
    return block


def is_inside(key: Key) -> bool:
    """Say whether this code runs inside the effect of a claim on this key."""
    return _CURRENT.get() is not None and any(holding.key.id == key.id for holding in _held())


def held_here(answer: Answer) -> bool:
    """Say whether a claim was lost to the very effect that made it: waiting for that effect cannot end well.

    The token tells: a claim that was taken over, or one in another store, is not what the answer is about.
    """
    entry = answer.entry
    if entry is None or not (
        answer.state == "busy" or entry.effect == "joined"
    ):  # joined: done from the start
        return False
    return any(holding.token == entry.token for holding in _held())


def _held() -> Iterator[Holding]:
    """List the claims under which this code runs and that were not ended, the innermost first."""
    block = _CURRENT.get()
    while block is not None:
        holding = block.holding
        if holding is not None and not holding.finished:
            yield holding
        block = block.outer


def current_claim() -> Holding:
    """Return the claim under which this code runs: its key, its fence, and whether it was lost."""
    block = _running()
    holding = block.holding if block is not None else None
    if holding is None:
        raise Misconfigured(
            "no claim is running here: call this inside a protected function or a claim's block"
        )
    return holding


def outcome(key: Key, answer: Answer, returns: Any) -> Outcome:
    """Tell the caller why the effect did not run."""
    state, entry = answer.state, answer.entry
    if held_here(answer):
        return Outcome("busy", None, entry, answer.wait, own=True)
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


def no_generator(function: Callable[..., Any], kind: Kind) -> None:
    """Refuse a generator before anything is claimed."""
    if kind in ("generator", "async generator"):
        article = "an" if kind == "async generator" else "a"
        raise TypeError(f"{name_of(function)} is {article} {kind}: {NO_GENERATORS}")


def must_be_finished(key: Key, function: Callable[..., Any], value: Any, fix: str) -> None:
    """Raise if a function returned something that is still to run: its effect may not have happened."""
    if what := unfinished(value):
        raise Unfinished(key, f"{name_of(function)} returned {what}", fix)


def awaitable(key: Key, function: Callable[[], Any]) -> Awaitable[Any]:
    """Call a function for an AsyncLedger; raise if it returned something that cannot be awaited."""
    given = function()
    if type(given) is not CoroutineType and not inspect.isawaitable(given):
        what = unfinished(given) or f"a value of type {type(given).__name__}, which cannot be awaited"
        raise Unfinished(
            key, f"{name_of(function)} returned {what}", "make it an async function, or use a Ledger"
        )
    return given


def returned(key: Key, receipt: Any, returns: Any = Any) -> tuple[Ending, str]:
    """Say that an effect happened, with its receipt; and why the receipt is not kept, if it cannot be.

    The caller is warned after the claim is settled: a warning may be turned into an exception.
    """
    if receipt is None and returns is Any:
        return _NOTHING_KEPT, ""
    _refuse_unfinished(key, receipt)
    try:
        return Ending("returned", faithful(receipt, returns)), ""
    except ValueError as error:
        return Ending("returned"), str(error)


def kept(key: Key, receipt: Any) -> str | None:
    """Write a receipt of a worker, which people read as JSON and no caller gets back."""
    _refuse_unfinished(key, receipt)
    try:
        return encode(receipt)
    except ValueError as error:
        warn_unkept(key, str(error))
        return None


def _refuse_unfinished(key: Key, receipt: Any) -> None:
    if what := unfinished(receipt):
        raise Unfinished(key, f"its receipt is {what}", "run it first, and settle with its result")


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
        raise (Reentered if outcome.own else Busy)(key, outcome.wait)
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
