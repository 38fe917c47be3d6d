"""One history of workers: a feed with ties, repeats and late rows, and lives that end at any call.

The production worker runs on virtual time against the production memory store. A life ends before or after a
call on the store, or at a moment in between; whatever was under way then never goes on. Some lives are told
to stop instead, and in some histories the store is away now and then. The last life is left alone, and after
it everything that the feed showed has to be accounted for.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from onefold.apps._polymarket import counted, fill_name, fill_parts
from onefold.core.entry import Change, Effect, Reply, Seen, State
from onefold.core.errors import Refused, Unreachable
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.sinks.function import Function
from onefold.sources.poll import Offset, Poll
from onefold.stores.memory import MemoryStore
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Pipeline, Worker
from onefold.worker.progress import cursor_key, position
from onefold.worker.work import is_kept

EPOCH = 1_700_000_000.0
AWAY = 0.05
"""How often a store that is away at times is."""

PROMISES = {
    "lost": "Whatever the feed showed was done, or is parked.",
    "twice": "A one-shot effect happened at most once.",
    "cursor": "The cursor never passed a record that was neither done, parked nor kept.",
    "undo": "What was taken back had been done, and was taken back once.",
    "stuck": "Every history comes to an end.",
}


class Broken(NamedTuple):
    """A promise that was broken."""

    checker: str
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.text}"


class Mortal:
    """The store as one life sees it. From the moment of its death on, nothing is answered or written."""

    def __init__(self, town: Town, dies_at: int | None, after: bool) -> None:
        self._town = town
        self._left = dies_at
        self._after = after
        self.died = asyncio.Event()

    async def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        await self._lives(False)
        return self._town.memory.get(keys)

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        await self._lives(self._after)
        replies = self._town.memory.swap(changes)
        self._town.look(changes)
        if self._left == 0:
            await self.die()
        return replies

    async def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> tuple[Sequence[Found], str | None]:
        await self._lives(False)
        return self._town.memory.scan(scope, states, due, after, limit)

    async def close(self) -> None:
        """Memory stays."""

    async def _lives(self, may_write: bool) -> None:
        if self.died.is_set():
            await asyncio.get_running_loop().create_future()
        if self._town.faults and self._town.random.random() < AWAY:
            raise Unreachable("the store is away")
        if self._left is not None:
            self._left -= 1
            if self._left == 0 and not may_write:
                await self.die()

    async def die(self) -> None:
        """End this life here."""
        self.died.set()
        await asyncio.get_running_loop().create_future()


class Web:
    """Stands for the site of the feed, without a socket."""

    url = "http://feed.test/trades"

    def __init__(self, town: Town) -> None:
        self._town = town

    async def get(self, url: str, read: Callable[[Any], Any]) -> Any:
        await asyncio.sleep(0.01)
        return read(self._town.page(url))


class Town:
    """Everything of one history that outlives its workers."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed = seed
        self.random = Random(f"worker {seed}")
        self.lines: list[str] | None = [] if tracing else None
        self.violations: list[Broken] = []
        self.past = 0.0
        self.loop: VirtualLoop | None = None
        self.memory = MemoryStore(lambda: EPOCH + self.now())
        self.happened: Counter[tuple[str, ...]] = Counter()
        self.undone: Counter[tuple[str, ...]] = Counter()
        self.effect: Effect = self.random.choice(("one-shot", "one-shot", "idempotent"))
        self.limit = self.random.randint(2, 6)
        self.newest_first = self.random.random() < 0.7
        self.lag = self.random.choice((0, 4))
        self.faults = self.random.random() < 0.5
        self.rows = self._drawn()

    # ----- the outside

    def now(self) -> float:
        return self.past + (self.loop.time() if self.loop else 0.0)

    def _drawn(self) -> list[tuple[float, dict[str, Any]]]:
        """Draw fills, and when each appears: ties, transactions of several fills, some exactly alike."""
        rows: list[tuple[float, dict[str, Any]]] = []
        at, moment = 100, 0.0
        while len(rows) < self.random.randint(6, 18):
            if self.random.random() < 0.4:
                at += 1
            if self.random.random() < 0.6:  # a tie may grow after it was read
                moment += self.random.random() * 1.5
            transaction = f"0x{len(rows):x}"
            group = [_row(self.random, transaction, at) for _ in range(self.random.choice((1, 1, 2, 3)))]
            if self.random.random() < 0.3:
                group.append(dict(group[-1]))
            late = self.lag and self.random.random() < 0.2
            rows += [(moment + (self.random.random() if late else 0.0), row) for row in group]
            if self.random.random() < 0.15:
                taken = {**group[0], "retracts": transaction, "block": f"b{len(rows)}"}
                at += 1
                moment += self.random.random()
                # What is taken back was shown before, however late it came.
                shown = max(appears for appears, row in rows if row["transactionHash"] == transaction)
                rows.append((max(moment, shown), {**taken, "timestamp": at}))
        return rows

    def page(self, url: str) -> list[dict[str, Any]]:
        """Answer a request: rows by their time, the latest names in them."""
        query = dict(part.partition("=")[::2] for part in url.partition("?")[2].split("&"))
        shown = sorted(
            (row for appears, row in self.rows if appears <= self.now()), key=lambda row: row["timestamp"]
        )
        rows = shown[::-1] if self.newest_first else shown
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        # A name may change between two looks; it names no other fill.
        return [{**row, "title": f"at {self.now():.0f}"} for row in rows[offset : offset + limit]]

    async def _act(self, record: Record, claim: Any, mortal: Mortal, book: Counter[tuple[str, ...]]) -> str:
        if mortal.died.is_set():
            await mortal.die()
        if self.faults and self.random.random() < 0.1:
            raise Refused("the far side is busy")
        await asyncio.sleep(self.random.random() * 0.2)
        book[_identity(record.body)] += 1
        self.say(f"effect {claim.key}")
        await asyncio.sleep(self.random.random() * 0.2)
        if self.faults and self.random.random() < 0.1:
            raise OSError("the answer was lost")
        return "done"

    # ----- the lives

    def run(self) -> None:
        """Live through some lives that end at any moment, and one that does not."""
        for _ in range(self.random.randint(0, 4)):
            self._life(self.random.choice((self._dies, self._dies, self._stops)))
        self._life(self._stays)
        self._check()

    def _life(self, life: Callable[[], Awaitable[None]]) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.live(life())
        finally:
            self.past += self.loop.time()
            self.loop.close()
            self.loop = None

    async def _dies(self) -> None:
        dies_at = self.random.randint(1, 25)
        _, store, _ = self._begun(dies_at)
        await asyncio.wait({asyncio.ensure_future(store.died.wait())}, timeout=self.random.uniform(1, 30))
        store.died.set()
        self.say("the life ends")

    async def _stops(self) -> None:
        worker, _, running = self._begun(None)
        await asyncio.sleep(self.random.uniform(0.5, 3))
        self.say("the life is told to stop")
        worker.stop()
        await running

    async def _stays(self) -> None:
        worker, _, running = self._begun(None)
        for _ in range(400):
            await asyncio.sleep(0.5)
            if self._is_quiet():
                break
        else:
            self.violations.append(Broken("stuck", f"after {self.now():.0f} s something is still open"))
        worker.stop()
        await running

    def _begun(self, dies_at: int | None) -> tuple[Worker, Mortal, asyncio.Future[int]]:
        assert self.loop is not None
        store = Mortal(self, dies_at, self.random.random() < 0.5)
        runtime = VirtualRuntime(self.loop, f"{self.seed} {self.now()}", EPOCH + self.past)
        name = f"life at {self.now():.1f}"
        worker = Worker([self._pipeline(store)], store=store, name=name, runtime=runtime)
        self.say(f"a life begins; it ends at call {dies_at}" if dies_at else "a life begins")
        return worker, store, asyncio.ensure_future(worker.arun())

    def _pipeline(self, mortal: Mortal) -> Pipeline:
        feed = Poll(
            "http://feed.test/trades",
            order="newest-first" if self.newest_first else "oldest-first",
            id=lambda row: "/".join((*fill_parts(row), row.get("block", ""))),
            unit=None,
            rows=_counted,
            paging=Offset(self.limit),
            every=0.5,
            lag=self.lag or None,
        )
        feed._web = Web(self)  # type: ignore[assignment]
        return Pipeline(
            "feed",
            sources={"trades": _Retracting(feed)},
            key=lambda record: fill_parts(record.body),
            sink=Function(self._acting(mortal, self.happened), effect=self.effect),
            undo=Function(self._acting(mortal, self.undone), effect=self.effect),
            terms=Terms(lease=5, backoff=(0.2, 1), attempts=6),
        )

    def _acting(self, mortal: Mortal, book: Counter[tuple[str, ...]]) -> Callable[..., Any]:
        async def act(record: Record, claim: Any) -> str:
            return await self._act(record, claim, mortal, book)

        return act

    # ----- what is looked at

    def look(self, changes: Sequence[Change]) -> None:
        """Hold every move of the cursor against what was visible and is accounted for."""
        mine = cursor_key("feed", "trades")
        for change in changes:
            if change.key != mine:
                continue
            [seen] = self.memory.get([mine])
            place, _ = position(_text(seen.entry))
            behind = [row for appears, row in self.rows if appears <= self.now() and place.at is not None]
            for row in behind:
                if (
                    place.at is not None
                    and row["timestamp"] < place.at - self.lag
                    and not self._accounted(row)
                ):
                    self.violations.append(
                        Broken(
                            "cursor", f"it moved to {place.at} past {row['transactionHash']}, which is open"
                        )
                    )

    def _keys(self) -> list[tuple[dict[str, Any], Key]]:
        rows = _counted([row for _, row in self.rows])
        return [(row, _key(row)) for row in rows]

    def _accounted(self, row: dict[str, Any]) -> bool:
        [seen] = self.memory.get([_key({**row, "repeat": 0})])
        entry = seen.entry
        return entry is not None and (entry.state in ("done", "parked") or is_kept(entry))

    def _is_quiet(self) -> bool:
        if any(appears > self.now() for appears, _ in self.rows):
            return False
        found, _ = self.memory.scan("feed", ("free", "held"), False, None, 1)
        if found:
            return False
        keys = [key for row, key in self._keys() if not row["repeat"]]
        return all(seen.entry for seen in self.memory.get(keys))

    def _check(self) -> None:
        for row, key in self._keys():
            [seen] = self.memory.get([key])
            state = seen.entry.state if seen.entry else "nothing"
            name = _identity(row)
            if row.get("retracts"):
                self._check_undo(name, row, state)
                continue
            if row["repeat"]:
                continue  # counted within a page; whether both stand on one page is the feed's doing
            if state == "done" and not self.happened[name]:
                self.violations.append(Broken("lost", f"{key} is done, but did not happen"))
            if state not in ("done", "parked"):
                self.violations.append(Broken("lost", f"{key} was shown, and is {state}"))
            if self.effect == "one-shot" and self.happened[name] > 1:
                self.violations.append(Broken("twice", f"{key} happened {self.happened[name]} times"))

    def _check_undo(self, name: tuple[str, ...], row: dict[str, Any], state: str) -> None:
        times = self.undone[name]
        if self.effect == "one-shot" and times > 1:
            self.violations.append(Broken("undo", f"{name} was taken back {times} times"))
        if times and not self.happened[name]:
            self.violations.append(Broken("undo", f"{name} was taken back, and never happened"))
        [original] = self.memory.get([Key("feed", *fill_parts(row))])
        done = original.entry is not None and original.entry.state == "done"
        if done and self.happened[name] and not times and state != "parked":
            self.violations.append(Broken("undo", f"{name} was retracted, and stands"))

    def say(self, text: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{self.now():8.3f}  {text}")


class _Retracting:
    """The feed, whose rows may say that they take another back."""

    def __init__(self, feed: Poll) -> None:
        self._feed = feed
        self.reach, self.repeats, self.lag = feed.reach, feed.repeats, feed.lag

    async def read(self, cursor: Any) -> AsyncIterator[Any]:
        # The feed paces itself by this process's clock, which is not the history's.
        await asyncio.sleep(0.5)
        self._feed._due = 0.0
        async for page in self._feed.read(cursor):
            yield page._replace(records=[_retracting(record) for record in page.records])

    async def tell(self, fates: Any) -> None:
        await self._feed.tell(fates)


def _counted(body: Any) -> list[Any]:
    """Number what looks alike; what takes a fill back is no second one."""
    return counted(body, lambda row: (*fill_name(row), row.get("block", "")))


def _retracting(record: Record) -> Record:
    taken = record.body.get("retracts")
    return record._replace(retracts=taken, id=record.body["block"]) if taken else record


def _row(random: Random, transaction: str, at: int) -> dict[str, Any]:
    return {
        "proxyWallet": "0xa",
        "side": random.choice(("BUY", "SELL")),
        "asset": random.choice(("1", "2")),
        "conditionId": "0xc",
        "size": random.choice((1.0, 2.0)),
        "price": 0.5,
        "timestamp": at,
        "transactionHash": transaction,
    }


def _identity(row: dict[str, Any]) -> tuple[str, ...]:
    """Name a fill by what it truly is, whatever the application makes of it."""
    fields = ("transactionHash", "asset", "side", "size", "price", "repeat")
    return tuple(str(row.get(field, 0)) for field in fields)


def _key(row: dict[str, Any]) -> Key:
    parts = fill_parts(row)
    return Key("feed", *parts, "undo", row["block"]) if row.get("retracts") else Key("feed", *parts)


def _text(entry: Any) -> Any:
    return json.loads(entry.body) if entry and entry.body else None


def live(seed: int, tracing: bool = False) -> Town:
    """Live through one history and hold every promise against it."""
    town = Town(seed, tracing)
    try:
        town.run()
    except Exception as error:
        town.violations.append(Broken("errors", f"it broke off: {error!r}"))
    return town
