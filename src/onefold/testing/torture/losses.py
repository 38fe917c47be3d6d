"""Cut the cable while a ledger claims, renews and settles, and compare what it told with what the server has.

Everything is asked through a proxy that loses requests and replies at random bytes; the truth is read through
a second connection, around ledger and proxy. Works for every store that has a server, in both colours.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from secrets import token_hex
from typing import Any, Literal, NamedTuple

from onefold import AsyncLedger, Key, Ledger, Terms
from onefold.core.claims import Hold
from onefold.core.entry import Change, Entry, Seen
from onefold.core.errors import LostClaim, Unreachable, Unsettled
from onefold.core.ports import Store
from onefold.core.protocol import renew
from onefold.drive import AsyncPorts, Ports, arun, run
from onefold.stores import aconnect, connect
from onefold.testing.mishaps import Drop, Exchange, Mishap, Reset, Swallow
from onefold.testing.proxy import Proxy
from onefold.testing.torture.places import place
from onefold.testing.torture.planted import Guess, Guessing
from onefold.testing.torture.verdicts import DEEDS, Asked, Deed, Losses, Told

SCOPE = "torture"
TERMS = Terms(lease=600)
BATCH = 5

TRIES = 6
"""Questions for each cut that is wanted, before the run is given up: some mishaps come too late to hurt."""

Plant = Literal["none", "unknown-is-busy", "unknown-is-won"]
"""A client that takes what it did not hear for an answer."""

PLANTS: tuple[Plant, ...] = ("unknown-is-busy", "unknown-is-won")


class Ground(NamedTuple):
    """Where the cable is cut."""

    scheme: str
    url: str
    plant: Plant = "none"


def losses(ground: Ground, count: int, seed: int, progress: Callable[[int], None]) -> Losses:
    """Cut the cable under this many questions, of every kind in turn, and collect what was told."""
    chance, script = random.Random(seed), Script()
    answers: list[Asked] = []
    cut = 0
    with (
        place(ground.scheme).lend(ground.url),
        Proxy.before(ground.url, script) as proxy,
        closing(connect(ground.url)) as truth,
        closing(Cutter(truth, proxy, script, chance)) as cutter,
    ):
        doors = _doors(ground, proxy.url)
        for number in range(count * TRIES):
            turn, deed = divmod(number, len(DEEDS))
            told = cutter.ask(doors[turn % len(doors)], DEEDS[deed], number)
            if told and cut < count:
                answers += told
                cut += 1
                progress(cut)
            if cut == count:
                break
        for door in doors:
            door.close()
    return Losses(cut, answers)


def _doors(ground: Ground, url: str) -> list[Door]:
    guesses: dict[Plant, Guess] = {"unknown-is-busy": "busy", "unknown-is-won": "won"}
    if ground.plant in guesses:
        return [Blocking(Guessing(connect(url), guesses[ground.plant]))]
    return [Blocking(connect(url)), Awaited(url)]


# ----- the two doors


class Hasty:
    """This process's clock, on which pauses are short: between two questions nothing is waited for."""

    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.002))


class AsyncHasty:
    """The same, awaited."""

    async def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.002))


class Blocking:
    """The blocking ledger."""

    def __init__(self, store: Store) -> None:
        self.store: Any = store
        self.ledger: Any = Ledger(store)
        self.ledger.clock = self._clock = Hasty()

    def do(self, what: Any) -> Any:
        """Return what was done; the awaited ledger does it here."""
        return what

    def renew(self, hold: Hold) -> str:
        [answer] = run(renew([hold]), Ports(self.store, self._clock))
        return answer.state

    def close(self) -> None:
        self.ledger.close()


class Awaited:
    """The awaited ledger, on an event loop of its own."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self.store: Any = aconnect(url)
        self.ledger: Any = AsyncLedger(self.store)
        self.ledger.clock = self._clock = AsyncHasty()

    def do(self, what: Any) -> Any:
        async def wait() -> Any:
            return await what

        return self._runner.run(wait())

    def renew(self, hold: Hold) -> str:
        [answer] = self._runner.run(arun(renew([hold]), AsyncPorts(self.store, self._clock)))
        return answer.state

    def close(self) -> None:
        self.do(self.ledger.close())
        self._runner.close()


Door = Blocking | Awaited


# ----- the knife


class Script:
    """What the proxy does to the next exchanges: what it is told here, and otherwise nothing."""

    def __init__(self) -> None:
        self._next: deque[Mishap] = deque()

    def __iter__(self) -> Iterator[Mishap]:
        return self

    def __next__(self) -> Mishap:
        return self._next.popleft() if self._next else None

    def arm(self, mishaps: Sequence[Mishap]) -> None:
        self._next.extend(mishaps)

    def disarm(self) -> None:
        self._next.clear()


def some_mishaps(chance: random.Random) -> list[Mishap]:
    """Draw what one question suffers: mostly one loss, sometimes another while it is asked again."""
    in_a_row = chance.choice((1, 1, 1, 1, 2, 3))
    return [_mishap(chance) for _ in range(in_a_row)]


def _mishap(chance: random.Random) -> Mishap:
    # Spread over all sizes: most requests are short, and what a batch sends is long.
    after = int(2 ** chance.uniform(0, 12)) - 1
    return chance.choice((Swallow(), Swallow(), Drop(), Reset(after, "request"), Reset(after, "reply")))


def was_cut(exchange: Exchange) -> bool:
    """Say whether a client did not hear all that the server had to say."""
    return exchange.mishap is not None and (not exchange.answered or exchange.heard < exchange.answered)


class Cutter:
    """Asks one question at a time, with the cable cut under it, and reads what the server has then."""

    def __init__(self, truth: Store, proxy: Proxy, script: Script, chance: random.Random) -> None:
        self._truth = truth
        self._proxy = proxy
        self._script = script
        self._chance = chance

    def close(self) -> None:
        self._script.disarm()

    def ask(self, door: Door, deed: Deed, number: int) -> list[Asked]:
        """Ask; return what was told, or nothing if the cable was not really cut."""
        acts: dict[Deed, Callable[[Door, list[Key]], list[tuple[Told, str, int]]]] = {
            "claim": self._claim,
            "claim of another's": self._claim_anothers,
            "claim of what is done": self._claim_done,
            "renew": self._renew,
            "late renew": self._late_renew,
            "settle": self._settle,
            "late settle": self._late_settle,
            "release": self._release,
            "batch claim": self._claim_many,
            "batch settle": self._settle_many,
        }
        keys = [Key(SCOPE, number, part) for part in range(BATCH if deed.startswith("batch") else 1)]
        done_before = len(self._proxy.journal)
        told = acts[deed](door, keys)
        self._script.disarm()
        cut = [exchange for exchange in self._proxy.journal[done_before:] if was_cut(exchange)]
        if not cut:
            return []
        mishaps = ", ".join(repr(exchange.mishap) for exchange in cut)
        stands = self._truth.get(keys)
        return [Asked(deed, mishaps, *one, seen.entry) for one, seen in zip(told, stands, strict=True)]

    def _cut(self, door: Door, keys: Sequence[Key]) -> None:
        """From here on the cable is cut; until here the connection is whole."""
        door.do(door.store.get(keys))
        self._script.arm(some_mishaps(self._chance))

    # ----- claiming

    def _claim(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        self._cut(door, keys)
        try:
            claim = door.do(door.ledger.claim(keys[0], effect="idempotent", terms=TERMS))
        except Unreachable:
            return [("unknown", "", 0)]
        return [(claim.state, claim.token, 0)]

    def _claim_anothers(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        self._write(keys[0], None, "held")
        return self._claim(door, keys)

    def _claim_done(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        self._write(keys[0], None, "done")
        return self._claim(door, keys)

    def _claim_many(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        self._write(keys[0], None, "held")
        self._cut(door, keys)
        try:
            claims = door.do(door.ledger.claim_many(keys, effect="idempotent", terms=TERMS))
        except Unreachable:
            return [("unknown", "", 0)] * len(keys)
        return [(claim.state, claim.token, 0) for claim in claims]

    # ----- holding

    def _renew(self, door: Door, keys: list[Key], late: bool = False) -> list[tuple[Told, str, int]]:
        claim = self._held(door, keys[0], late)
        self._cut(door, keys)
        try:
            state = door.renew(claim.hold())
        except Unreachable:
            state = "unknown"
        told: Told = "renewed" if state == "won" else "lost" if state == "lost" else "unknown"
        return [(told, claim.token, claim.entry.version)]

    def _late_renew(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        return self._renew(door, keys, late=True)

    def _held(self, door: Door, key: Key, late: bool = False) -> Any:
        claim = door.do(door.ledger.claim(key, effect="idempotent", terms=TERMS))
        if late:
            self._write(key, claim.entry.version, "held")
        return claim

    def _write(self, key: Key, expected: int | None, state: Literal["held", "done"]) -> None:
        """Be somebody else who acts on a key, by a cable that is whole."""
        wanted = Entry(state, token=f"rival{token_hex(8)}", lease=TERMS.lease, effect="idempotent", body="1")
        [reply] = self._truth.swap([Change(key, expected, wanted)])
        assert isinstance(reply, Seen)
        assert reply.entry is not None
        assert reply.entry.token == wanted.token

    # ----- ending

    def _settle(self, door: Door, keys: list[Key], late: bool = False) -> list[tuple[Told, str, int]]:
        claim = self._held(door, keys[0], late)
        self._cut(door, keys)
        return [(_ended(lambda: door.do(claim.settle("sent")), "settled"), claim.token, 0)]

    def _late_settle(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        return self._settle(door, keys, late=True)

    def _release(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        claim = self._held(door, keys[0])
        self._cut(door, keys)
        return [(_ended(lambda: door.do(claim.release("not now")), "released"), claim.token, 0)]

    def _settle_many(self, door: Door, keys: list[Key]) -> list[tuple[Told, str, int]]:
        claims = [self._held(door, key) for key in keys]
        self._write(keys[0], claims[0].entry.version, "held")
        self._cut(door, keys)
        try:
            lost = door.do(door.ledger.settle_many([(claim, "sent") for claim in claims]))
        except Unsettled:
            return [("unknown", claim.token, 0) for claim in claims]
        return [("lost" if claim in lost else "settled", claim.token, 0) for claim in claims]


def _ended(end: Callable[[], object], fine: Told) -> Told:
    try:
        end()
    except LostClaim:
        return "lost"
    except (Unsettled, Unreachable):
        return "unknown"
    return fine
