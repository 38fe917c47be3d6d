"""The awaited door: `AsyncLedger`, the same names and arguments as `Ledger`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, Unpack

import anyio

from onefold.core.claims import Answer, Bid, Ending
from onefold.core.entry import OPEN, Entry, State
from onefold.core.errors import Locked, LostClaim, Misconfigured, OnefoldError, Unreachable
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.core.operate import look, page, resolve
from onefold.core.ports import AsyncClock, AsyncStore, Joined
from onefold.core.protocol import acquire, answer_probe, claim, end, note_failure
from onefold.core.sightings import Sightings
from onefold.drive import (
    GRACE,
    AsyncHeart,
    AsyncMerged,
    AsyncPorts,
    AsyncWallClock,
    Inline,
    Tap,
    aacquire_one,
    aend_one,
    arun,
)
from onefold.drive.functions import kind, name_of
from onefold.ledger.holding import (
    PROBES,
    Holding,
    Outcome,
    awaitable,
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
from onefold.ledger.loops import Homes
from onefold.ledger.receipts import encode, return_type, warn_unkept
from onefold.ledger.ways import How, Way, way
from onefold.runtime import current
from onefold.stores import join

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncClaim(Holding):
    """A claim of an `AsyncLedger`: the same, awaited."""

    __slots__ = ("_heart",)
    _ledger: AsyncLedger

    def __init__(self, ledger: AsyncLedger, bid: Bid, way: Way, answer: Answer, heart: AsyncHeart) -> None:
        self._heart = heart
        """Of the event loop on which it was claimed; it may be settled on another."""
        super().__init__(ledger, bid, way, answer)

    async def settle(self, receipt: Any = None) -> None:
        """Say that it happened, and keep the receipt if it is made of plain JSON values."""
        await self._settle(receipt, Any)

    async def _settle(self, receipt: Any, returns: Any) -> None:
        ending, unkept = returned(self.key, receipt, returns)
        await self._ledger._finish(self, ending, receipt)
        if unkept:
            warn_unkept(self.key, unkept)

    async def release(self, reason: str = "") -> None:
        """Give the key back: nothing happened, anybody may try at once."""
        await self._ledger._finish(self, self.given_back(reason), None)

    async def park(self, reason: str = "") -> None:
        """Set the key aside for a person to decide."""
        await self._ledger._finish(self, self.set_aside(reason), None)

    async def __aenter__(self) -> AsyncClaim:
        self.make_current()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.finished:
                return
            if error is None:
                await self.settle()
            else:
                await self._ledger._fail(self, error)
        finally:
            self.make_past()

    def __del__(self) -> None:
        # A claim that was forgotten must not be kept alive for ever; it ends with its lease. Nor one that
        # an interrupt struck after it was marked as finished.
        if self.pulse is not None:
            self._heart.drop(self.pulse)


class Claiming:
    """What `AsyncLedger.claim` returns: await it, or enter it with `async with`."""

    def __init__(self, claim: Callable[[], Awaitable[AsyncClaim]]) -> None:
        self._claim = claim
        self._entered: AsyncClaim | None = None

    def __await__(self) -> Generator[Any, None, AsyncClaim]:
        return self._claim().__await__()

    async def __aenter__(self) -> AsyncClaim:
        self._entered = await self._claim()
        return await self._entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._entered is not None, "left before it was entered"
        await self._entered.__aexit__(kind, error, trace)


class AsyncLedger:
    """Remembers what was done under which key, in any store. Several event loops may share it."""

    tap: Tap | None = None
    """Called with every call on the store; set it before first use."""

    clock: AsyncClock = AsyncWallClock()
    """How this ledger waits and measures its own leases; a test may set another before first use."""

    def __init__(self, store: str | AsyncStore | None = None, *, create: bool = True) -> None:
        self._joined: Joined | None = None
        self._homes = Homes(store, create, self._wrap)

    @classmethod
    def on(cls, connection: object) -> AsyncLedger:
        """Join the caller's transaction: mark and effect commit together, when the caller commits."""
        joined = join(connection)
        ledger = cls(Inline(joined))
        ledger._joined = joined
        return ledger

    # ----- protecting

    def protect(
        self, scope: str, *, key: Callable[..., Any], **how: Unpack[How]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Make an async function run once per key; later calls return its receipt.

        `key` gets the call's arguments and gives a part or a tuple of parts; `content` and `probe`, if
        given, get them too. Raises Busy (after `wait`) or Parked where there is nothing to return.
        """
        checked = way(how, self._joined is not None)

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            _must_be_async(function)
            bids, returns = bidder(function, scope, key, checked), return_type(function)

            @wraps(function)
            async def once(*args: P.args, **kwargs: P.kwargs) -> R:
                bid, bound = bids(args, kwargs)
                outcome = await self._call(bid, bound, partial(function, *args, **kwargs), returns)
                result: R = received(bid.key, outcome)
                return result

            return once

        return decorate

    async def call(self, key: Key, fn: Callable[[], Awaitable[Any]], **how: Unpack[How]) -> Outcome:
        """Run an async function once for a key, and say what came of it. What it raises is raised."""
        no_generator(fn, kind(fn))
        checked = way(how, self._joined is not None)
        return await self._call(checked.bid(key, checked.content), checked, fn)

    async def _call(
        self, bid: Bid, way: Way, fn: Callable[[], Awaitable[Any]], returns: Any = None
    ) -> Outcome:
        answer = await self._acquire(bid, way)
        if returns is None:
            returns = return_type(fn)
        if answer.state != "won":
            return outcome(bid.key, answer, returns)
        claim = self._claimed(bid, way, answer)
        async with claim:
            value = await self._cancelled_if_lost(claim, fn)
            must_be_finished(bid.key, fn, value, "await it inside the function")
            await claim._settle(value, returns)
        return Outcome("ran", value, claim.entry)

    async def _cancelled_if_lost(self, claim: AsyncClaim, fn: Callable[[], Awaitable[Any]]) -> Any:
        """Run an effect; stop it when its lease is gone, unless it is one-shot and must run to its end."""
        pulse = claim.pulse
        if pulse is None:
            return await awaitable(claim.key, fn)
        with anyio.CancelScope() as scope:
            pulse.tell = scope.cancel
            try:
                return await awaitable(claim.key, fn)
            finally:
                pulse.tell = None
        raise LostClaim(claim.key)

    # ----- claiming

    def claim(self, key: Key, **how: Unpack[How]) -> Claiming:
        """Try to become the one who acts on a key. Losing is told by the claim's state, not raised."""
        checked = way(how, self._joined is not None)
        return Claiming(partial(self._claim, checked.bid(key, checked.content), checked))

    async def _claim(self, bid: Bid, way: Way) -> AsyncClaim:
        return self._claimed(bid, way, await self._acquire(bid, way))

    async def claim_many(self, keys: Sequence[Key], **how: Unpack[How]) -> list[AsyncClaim]:
        """Claim many keys in one round trip; claims in the order of the keys. A repeated key is an error.

        One-shot effects count as begun from here on: a crash parks those that were not settled.
        """
        checked = way(how, self._joined is not None)
        only_plain(checked)
        bids = checked.bids(keys)
        answers = await self._run(claim(bids))
        heart = self._homes.here().heart
        claims = [
            AsyncClaim(self, bid, checked, answer, heart) for bid, answer in zip(bids, answers, strict=True)
        ]
        if self._joined is None:
            heart.add(*[claim.pulse for claim in claims if claim.pulse is not None])
        return claims

    async def settle_many(self, done: Sequence[tuple[AsyncClaim, Any]]) -> list[AsyncClaim]:
        """Settle many claims in one round trip; return those that were lost."""
        endings = [returned(claim.key, receipt) for claim, receipt in done]
        lost = await self._finish_many([claim for claim, _ in done], [ending for ending, _ in endings])
        for (settled, _), (_, unkept) in zip(done, endings, strict=True):
            if unkept:
                warn_unkept(settled.key, unkept)
        return lost

    async def release_many(self, claims: Sequence[AsyncClaim], reason: str = "") -> list[AsyncClaim]:
        """Give many keys back in one round trip; return those that were lost."""
        return await self._finish_many(claims, [one.given_back(reason) for one in claims])

    # ----- looking and deciding

    async def look(self, key: Key) -> Entry | None:
        """Return what is known of a key."""
        [seen] = await self._run(look([key]))
        return seen.entry

    async def entries(self, scope: str, *states: State) -> AsyncIterator[tuple[Key, Entry]]:
        """List entries of a scope: the open ones, or those in the given states (done ones by a full walk)."""
        after = None
        while True:
            found, after = await self._run(page(scope, states or OPEN, after))
            for key, seen in found:
                if seen.entry:
                    yield key, seen.entry
            if after is None:
                return

    async def resolve(self, key: Key, *, happened: bool, receipt: Any = None, by: str) -> None:
        """Decide about a parked key: it happened (with this receipt), or it did not and may run again."""
        body = encode(receipt) if happened else None
        resolved(key, await self._run(resolve(key, happened, body, by, current().token())))

    async def close(self) -> None:
        """Let go of what this event loop opened; a ledger may be used again afterwards.

        A loop that uses the ledger closes it itself. What loops share is closed by the last of them.
        """
        for store in self._homes.to_close():
            await store.close()

    # ----- driving

    def _wrap(self, store: AsyncStore, sightings: Sightings) -> AsyncPorts:
        """Put the queue of group commit in front of a store; a transaction of the caller's needs none."""
        if self._joined is None:
            store = AsyncMerged(store, self.clock, sightings)
        return AsyncPorts(store, clock=self.clock, tap=self.tap)

    async def _run(self, flow: Flow[T]) -> T:
        try:
            ports = self._homes.here().ports
        except BaseException:
            flow.close()
            raise
        return await arun(flow, ports)

    def _claimed(self, bid: Bid, way: Way, answer: Answer) -> AsyncClaim:
        """Hand out what came of a bid; what was won is kept alive from here on."""
        claim = AsyncClaim(self, bid, way, answer, self._homes.here().heart)
        if claim.pulse is not None and self._joined is None:
            claim._heart.add(claim.pulse)
        return claim

    async def _acquire(self, bid: Bid, way: Way) -> Answer:
        if self._joined is not None:
            return await self._join(bid, self._joined)
        ports = self._homes.here().ports
        inside = is_inside(bid.key)  # then it is not waited for, unless somebody else holds it
        answer = await aacquire_one(bid, 0.0 if inside else way.wait, ports)
        if inside and answer.state == "busy" and not held_here(answer):
            answer = await aacquire_one(bid, way.wait, ports)
        if way.probe is not None:
            answer = await self._probed(bid, way, way.probe, answer)
        return answer

    async def _probed(self, bid: Bid, way: Way, probe: Callable[[], Any], answer: Answer) -> Answer:
        """Ask the probe about what is in doubt; claim again when it knew."""
        for _ in range(PROBES):
            entry = in_doubt(answer)
            if entry is None:
                break
            told = probe()
            told, body = probe_answer(await told if inspect.isawaitable(told) else told)
            if told is None:
                break
            await self._run(answer_probe(bid.key, entry, current().token(), told, body))
            answer = await self._run(acquire(bid, way.wait))
        return answer

    async def _join(self, bid: Bid, joined: Joined) -> Answer:
        try:
            joined.mark(mark_name(bid))
        except Locked:
            return Answer("busy")
        try:
            answer = await self._run(acquire(bid))
        except Locked:
            joined.go_back(mark_name(bid))
            return Answer("busy")
        if answer.state != "won":
            joined.keep(mark_name(bid))
        return answer

    async def _finish(self, claim: AsyncClaim, ending: Ending, receipt: Any) -> None:
        """Write how a claim ended; raise if that is not how it stands now."""
        hold = claim.hold()
        try:
            answer = await aend_one(hold, ending, claim.bid.terms, self._homes.here().ports)
        except (Unreachable, Misconfigured):
            answer = Answer("unknown")
        finally:
            self._let_go(claim)
        claim.conclude(ending, answer, receipt)
        if self._joined is not None:
            self._joined.keep(mark_name(claim.bid))

    async def _fail(self, claim: AsyncClaim, error: BaseException) -> None:
        """Write that the effect ended by an exception, which the caller gets whatever the store says."""
        # A cancelled caller still says how it ended, within a grace time.
        grace = GRACE if isinstance(error, asyncio.CancelledError) else None
        try:
            with anyio.move_on_after(grace, shield=grace is not None):
                if self._joined is not None:
                    await self._undo(claim, self._joined, claim.failed(error))
                else:
                    await self._finish(claim, claim.failed(error), None)
        except OnefoldError as unsaid:
            error.add_note(f"onefold: {unsaid}")

    async def _undo(self, claim: AsyncClaim, joined: Joined, how: Ending) -> None:
        self._let_go(claim)
        joined.go_back(mark_name(claim.bid))
        await self._run(note_failure(claim.bid, how))

    async def _finish_many(self, claims: Sequence[AsyncClaim], endings: Sequence[Ending]) -> list[AsyncClaim]:
        holds = [(one.hold(), ending, one.bid.terms) for one, ending in zip(claims, endings, strict=True)]
        try:
            answers = await self._run(end(holds))
        except (Unreachable, Misconfigured):
            answers = [Answer("unknown")] * len(holds)
        finally:
            self._let_go_many(claims)
        return ended(claims, endings, answers)

    def _let_go(self, claim: AsyncClaim) -> None:
        claim.finished = True
        if claim.pulse is not None:
            claim._heart.drop(claim.pulse)

    def _let_go_many(self, claims: Sequence[AsyncClaim]) -> None:
        for one in claims:
            self._let_go(one)


def _must_be_async(function: Callable[..., Any]) -> None:
    found = kind(function)
    no_generator(function, found)
    if found != "async":
        raise TypeError(f"{name_of(function)} is not async: protect it with a Ledger")
