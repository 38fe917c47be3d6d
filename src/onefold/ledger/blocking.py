"""The blocking door: `Ledger`, and the claims it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, Unpack

from onefold.core.claims import Answer, Bid, Ending
from onefold.core.entry import OPEN, Entry, State
from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unreachable
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.operate import look, page, resolve
from onefold.core.ports import Clock, Joined, Store
from onefold.core.protocol import acquire, answer_probe, claim, end, note_failure
from onefold.drive import Heart, Merged, Ports, Tap, WallClock, acquire_one, end_one, run
from onefold.drive.functions import kind, name_of
from onefold.drive.guard import Guard
from onefold.ledger.holding import (
    PROBES,
    Holding,
    Outcome,
    bidder,
    ended,
    held_here,
    in_doubt,
    is_inside,
    mark_name,
    must_be_finished,
    no_generator,
    only_plain,
    outcome,
    probe_answer,
    received,
    resolved,
    returned,
)
from onefold.ledger.receipts import encode, return_type, warn_unkept
from onefold.ledger.ways import How, Way, way
from onefold.runtime import current
from onefold.stores import connect, join
from onefold.stores.locate import announce, locate, refuse_empty, working_folder

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Claim(Holding):
    """A claim of a `Ledger`. Leaving its block settles it; an exception ends it as its effect class says."""

    __slots__ = ()
    _ledger: Ledger

    def settle(self, receipt: Any = None) -> None:
        """Say that it happened, and keep the receipt if it is made of plain JSON values."""
        self._settle(receipt, Any)

    def _settle(self, receipt: Any, returns: Any) -> None:
        ending, unkept = returned(self.key, receipt, returns)
        self._ledger._finish(self, ending, receipt)
        if unkept:
            warn_unkept(self.key, unkept)

    def release(self, reason: str = "") -> None:
        """Give the key back: nothing happened, anybody may try at once."""
        self._ledger._finish(self, self.given_back(reason), None)

    def park(self, reason: str = "") -> None:
        """Set the key aside for a person to decide."""
        self._ledger._finish(self, self.set_aside(reason), None)

    def __enter__(self) -> Claim:
        self.make_current()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.finished:
                return
            if error is None:
                self.settle()
            else:
                self._ledger._fail(self, error)
        finally:
            self.make_past()

    def __del__(self) -> None:
        # A claim that was forgotten must not be kept alive for ever; it ends with its lease. Nor one that
        # an interrupt struck after it was marked as finished.
        if self.pulse is not None:
            self._ledger._heart.drop(self.pulse)


class Ledger:
    """Remembers what was done under which key. Safe to share between threads and across forks."""

    tap: Tap | None = None
    """Called with every call on the store; set it before first use."""

    clock: Clock = WallClock()
    """How this ledger waits and measures its own leases; a test may set another before first use."""

    def __init__(self, store: str | Store | None = None, *, create: bool = True) -> None:
        if isinstance(store, str):
            refuse_empty(store, "the URL of the store")
        self._store = store
        self._folder = working_folder()  # now: a process may change it before first use
        self._create = create
        self._joined: Joined | None = None
        self._ports: Ports | None = None
        self._opening = Guard()
        self._heart = Heart(self._open)

    @classmethod
    def on(cls, connection: object) -> Ledger:
        """Join the caller's transaction: mark and effect commit together, when the caller commits."""
        joined = join(connection)
        ledger = cls(joined)
        ledger._joined = joined
        return ledger

    # ----- protecting

    def protect(
        self, scope: str, *, key: Callable[..., Any], **how: Unpack[How]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Make a function run once per key; later calls return its receipt.

        `key` gets the call's arguments and gives a part or a tuple of parts; `content` and `probe`, if
        given, get them too. Raises Busy (after `wait`) or Parked where there is nothing to return.
        """
        checked = way(how, self._joined is not None)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            _must_block(function)
            bids, returns = bidder(function, scope, key, checked), return_type(function)

            @wraps(function)
            def once(*args: P.args, **kwargs: P.kwargs) -> R:
                bid, bound = bids(args, kwargs)
                outcome = self._call(bid, bound, partial(function, *args, **kwargs), returns)
                result: R = received(bid.key, outcome)
                return result

            return once

        return decorate

    def call(self, key: Key, fn: Callable[[], Any], **how: Unpack[How]) -> Outcome:
        """Run a function once for a key, and say what came of it. What the function raises is raised."""
        _must_block(fn)
        checked = way(how, self._joined is not None)
        return self._call(checked.bid(key, checked.content), checked, fn)

    def _call(self, bid: Bid, way: Way, fn: Callable[[], Any], returns: Any = None) -> Outcome:
        answer = self._acquire(bid, way)
        if returns is None:
            returns = return_type(fn)
        if answer.state != "won":
            return outcome(bid.key, answer, returns)
        claim = self._claimed(bid, way, answer)
        with claim:
            value = fn()
            must_be_finished(
                bid.key, fn, value, "protect it with an AsyncLedger, or do the work in the function"
            )
            claim._settle(value, returns)
        return Outcome("ran", value, claim.entry)

    # ----- claiming

    def claim(self, key: Key, **how: Unpack[How]) -> Claim:
        """Try to become the one who acts on a key. Losing is told by the claim's state, not raised."""
        checked = way(how, self._joined is not None)
        bid = checked.bid(key, checked.content)
        return self._claimed(bid, checked, self._acquire(bid, checked))

    def claim_many(self, keys: Sequence[Key], **how: Unpack[How]) -> list[Claim]:
        """Claim many keys in one round trip; claims in the order of the keys. A repeated key is an error.

        One-shot effects count as begun from here on: a crash parks those that were not settled.
        """
        checked = way(how, self._joined is not None)
        only_plain(checked)
        bids = checked.bids(keys)
        answers = self._run(claim(bids))
        claims = [Claim(self, bid, checked, answer) for bid, answer in zip(bids, answers, strict=True)]
        if self._joined is None:
            self._heart.add(*[claim.pulse for claim in claims if claim.pulse is not None])
        return claims

    def settle_many(self, done: Sequence[tuple[Claim, Any]]) -> list[Claim]:
        """Settle many claims in one round trip; return those that were lost."""
        endings = [returned(claim.key, receipt) for claim, receipt in done]
        lost = self._finish_many([claim for claim, _ in done], [ending for ending, _ in endings])
        for (settled, _), (_, unkept) in zip(done, endings, strict=True):
            if unkept:
                warn_unkept(settled.key, unkept)
        return lost

    def release_many(self, claims: Sequence[Claim], reason: str = "") -> list[Claim]:
        """Give many keys back in one round trip; return those that were lost."""
        return self._finish_many(claims, [one.given_back(reason) for one in claims])

    # ----- looking and deciding

    def look(self, key: Key) -> Entry | None:
        """Return what is known of a key."""
        [seen] = self._run(look([key]))
        return seen.entry

    def entries(self, scope: str, *states: State) -> Iterator[tuple[Key, Entry]]:
        """List entries of a scope: the open ones, or those in the given states (done ones by a full walk)."""
        after = None
        while True:
            found, after = self._run(page(scope, states or OPEN, after))
            yield from ((key, seen.entry) for key, seen in found if seen.entry)
            if after is None:
                return

    def resolve(self, key: Key, *, happened: bool, receipt: Any = None, by: str) -> None:
        """Decide about a parked key: it happened (with this receipt), or it did not and may run again."""
        body = encode(receipt) if happened else None
        resolved(key, self._run(resolve(key, happened, body, by, current().token())))

    def close(self) -> None:
        """Let go of the store; a ledger may be used again afterwards."""
        if self._ports is not None:
            self._ports.store.close()

    # ----- driving

    def _open(self) -> Ports:
        if self._ports is None:
            with self._opening:
                if self._ports is None:
                    self._ports = self._connect()
        return self._ports

    def _connect(self) -> Ports:
        if self._joined is not None:
            return Ports(self._joined, clock=self.clock, tap=self.tap)
        if self._store is not None and not isinstance(self._store, str):
            return Ports(Merged(self._store, self.clock), clock=self.clock, tap=self.tap)
        located = locate(self._store, self._folder)
        if self._create:
            announce(located)
        return Ports(Merged(connect(located.url, self._create), self.clock), clock=self.clock, tap=self.tap)

    def _run(self, flow: Flow[T]) -> T:
        try:
            ports = self._ports or self._open()
        except BaseException:
            flow.close()
            raise
        return run(flow, ports)

    def _claimed(self, bid: Bid, way: Way, answer: Answer) -> Claim:
        """Hand out what came of a bid; what was won is kept alive from here on."""
        claim = Claim(self, bid, way, answer)
        if claim.pulse is not None and self._joined is None:
            self._heart.add(claim.pulse)
        return claim

    def _acquire(self, bid: Bid, way: Way) -> Answer:
        if self._joined is not None:
            return self._join(bid, self._joined)
        ports = self._ports or self._open()
        inside = is_inside(bid.key)  # then it is not waited for, unless somebody else holds it
        answer = acquire_one(bid, 0.0 if inside else way.wait, ports)
        if inside and answer.state == "busy" and not held_here(answer):
            answer = acquire_one(bid, way.wait, ports)
        if way.probe is not None:
            answer = self._probed(bid, way, way.probe, answer)
        return answer

    def _probed(self, bid: Bid, way: Way, probe: Callable[[], Any], answer: Answer) -> Answer:
        """Ask the probe about what is in doubt; claim again when it knew."""
        for _ in range(PROBES):
            entry = in_doubt(answer)
            if entry is None:
                break
            told, body = probe_answer(probe())
            if told is None:
                break
            self._run(answer_probe(bid.key, entry, current().token(), told, body))
            answer = self._run(acquire(bid, way.wait))
        return answer

    def _join(self, bid: Bid, joined: Joined) -> Answer:
        try:
            joined.mark(mark_name(bid))
        except Locked:
            return Answer("busy")
        try:
            answer = self._run(acquire(bid))
        except Locked:
            joined.go_back(mark_name(bid))
            return Answer("busy")
        if answer.state != "won":
            joined.keep(mark_name(bid))
        return answer

    def _finish(self, claim: Claim, ending: Ending, receipt: Any) -> None:
        """Write how a claim ended; raise if that is not how it stands now."""
        hold = claim.hold()
        try:
            answer = end_one(hold, ending, claim.bid.terms, self._ports or self._open())
        except (Unreachable, Misconfigured):
            answer = Answer("unknown")
        finally:
            self._let_go(claim)
        claim.conclude(ending, answer, receipt)
        if self._joined is not None:
            self._joined.keep(mark_name(claim.bid))

    def _fail(self, claim: Claim, error: BaseException) -> None:
        """Write that the effect ended by an exception, which the caller gets whatever the store says."""
        try:
            if self._joined is not None:
                self._undo(claim, self._joined, claim.failed(error))
            else:
                self._finish(claim, claim.failed(error), None)
        except OnefoldError as unsaid:
            error.add_note(f"onefold: {unsaid}")

    def _undo(self, claim: Claim, joined: Joined, how: Ending) -> None:
        self._let_go(claim)
        joined.go_back(mark_name(claim.bid))
        self._run(note_failure(claim.bid, how))

    def _finish_many(self, claims: Sequence[Claim], endings: Sequence[Ending]) -> list[Claim]:
        holds = [(one.hold(), ending, one.bid.terms) for one, ending in zip(claims, endings, strict=True)]
        try:
            answers = self._run(end(holds))
        except (Unreachable, Misconfigured):
            answers = [Answer("unknown")] * len(holds)
        finally:
            self._let_go_many(claims)
        return ended(claims, endings, answers)

    def _let_go(self, claim: Claim) -> None:
        claim.finished = True
        if claim.pulse is not None:
            self._heart.drop(claim.pulse)

    def _let_go_many(self, claims: Sequence[Claim]) -> None:
        for one in claims:
            one.finished = True
        self._heart.drop(*[one.pulse for one in claims if one.pulse is not None])


def _must_block(function: Callable[..., Any]) -> None:
    found = kind(function)
    if found == "async":
        raise TypeError(f"{name_of(function)} is async: protect it with an AsyncLedger")
    no_generator(function, found)
