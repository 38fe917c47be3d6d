"""Candles in the simulation: a bar service with empty, failing and hidden pages, and a table that forgets.

A history begins shortly before or after the moment at which tiles of every timeframe end. So tiles begin, are
provisional and become complete while workers die.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from onefold.core.calendar import always
from onefold.core.coverage import Span
from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.worlds.bars import KEY, MINUTE, Bars
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import StandIn
from proof.apps.part import Act, Look, Part, Setting
from proof.apps.quotes import (
    Cell,
    Place,
    Stamped,
    Stored,
    Table,
    Timeline,
    Values,
    between,
    forget_new,
    forget_nothing,
    timelines,
)

TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "cut-after", "half", "empty", "garbage")
"""Not stale: an old answer is word for word one to an earlier asking, and nobody can tell the two apart."""

DAY = 86_400
MINUTES = 1440
"""In a day."""

MIDNIGHT = 703 * 4 * 7 * DAY
"""2023-11-23: tiles of a day, of a week and of four weeks end here."""

CURSORS = "onefold.cursors"

AHEAD = 40.0
"""How far the clock of a worker may be ahead of the true one. `settle` must be longer."""

PAIRS = {"EUR/USD": "C:EURUSD", "USD/JPY": "C:USDJPY"}
LENGTHS = {"1m": (60, DAY), "5m": (300, 7 * DAY), "1h": (3600, 28 * DAY), "1d": (DAY, 28 * DAY)}
"""Seconds of a bar and of a tile, from the page about candles."""
FRAMES = (("1m",), ("1m",), ("1m",), ("1m", "5m"), ("1m", "1h"), ("5m", "1d"))

ODD: tuple[Any, ...] = (
    {"t": "soon", "o": 1, "h": 1, "l": 1, "c": 1, "v": 1},
    {"t": (MIDNIGHT - 90) * 1000, "o": 1, "h": 1, "l": 1, "c": 1, "v": 1},
    {"t": (MIDNIGHT - 60) * 1000, "o": 2, "h": 1, "l": 1, "c": 1, "v": 1},
    None,
)
"""Rows that are no bars: no time, a time at which no bar starts, contradicting prices, nothing."""


class Candles(Part):
    """One or two pairs in one or two timeframes, a few bars a day, up to four tiles of each series."""

    name = "candles"
    span = 60.0

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        super().__init__(random, clock, folder)
        self.began = float(MIDNIGHT + random.choice((-50, -30, -15, -5, 10, 40, 60, 150, 300)))
        self.journal = Stamped(clock)
        self.api = Bars(_drawn(random), self.journal, page=random.choice((1, 2, 3, 3, 8)), now=clock)
        self.file = folder / "bars.db"
        self._bars = Table(self.file)
        (folder / "key").write_text(KEY)
        # What is wanted, as the configuration says it; a plan may want more later.
        self.pairs = list(PAIRS)[: random.choice((1, 1, 1, 2))]
        self.frames = random.choice(FRAMES)
        self.days = random.choice((1, 2, 2, 3))
        self.until = random.choice((None, None, MIDNIGHT, MIDNIGHT + 30))
        self.grows = random.random() < 0.3
        self.corrects = random.random() < 0.6
        self.settle = random.choice((45, 50, 60))
        self.manner: dict[str, Any] = {
            "parallel": random.choice((1, 2, 3)),
            "refresh": f"{random.choice((10, 20))}s",
            "again": f"{random.choice((4, 10))}s",
            "every": f"{random.choice((8, 20))}s",
        }
        self.most_days = self.days + self.grows
        self.holiday = self.most_days == 3 and random.random() < 0.5
        self._begins = MIDNIGHT - (self.days - 1) * DAY if random.random() < 0.15 else None
        self._stays_refused = random.random() < 0.5
        self._fewest = 0
        self._garbled: tuple[str, int, dict[str, Any]] | None = None
        self._claims: dict[bytes, tuple[int, float]] = {}
        self._finished: dict[bytes, tuple[float, float]] = {}
        self._table: dict[Place, Stored] = {}
        ever = self._cells(list(PAIRS), MIDNIGHT - self.most_days * DAY, MIDNIGHT + DAY)
        self._ever = {cell.key.id: cell for cell in ever}
        self._sources: dict[bytes, list[Cell]] = {}
        """The tiles that each cursor passes, by the cursor's key."""
        for days in {self.days, self.most_days}:
            since = MIDNIGHT - days * DAY
            for cell in self._cells(list(PAIRS), since, MIDNIGHT + DAY):
                source = f"{cell.series} since {_written(since)[:10]}"
                self._sources.setdefault(Key(CURSORS, self.name, source).id, []).append(cell)

    # ----- the service, and what is wanted of it

    def services(self) -> Sequence[StandIn]:
        """Draw what happened before the history begins."""
        counts = []
        for ticker in PAIRS.values():
            for day in range(1, self.most_days + 1):
                if day == 3 and self.holiday:
                    continue
                since = MIDNIGHT - day * DAY
                starts = self.random.sample(
                    range(since, since + DAY - 720, MINUTE), self.random.randint(2, 6)
                )
                counts.append(len(starts))
                for start in starts:
                    self._minute(ticker, start)
            for start in range(MIDNIGHT - 600, int(self.began) - MINUTE, MINUTE):
                if self.random.random() < 0.3:
                    self._minute(ticker, start)
        self._fewest = min(counts)
        self.api.plan_begins = self._begins
        self.api.odd_since = MIDNIGHT - DAY
        return [self.api]

    def section(self) -> Mapping[str, Any]:
        more: dict[str, Any] = {"until": _written(self.until)} if self.until else {}
        if self.holiday:
            more["holidays"] = [_written(MIDNIGHT - 3 * DAY)[:10]]
        return {
            "api_key": f"file:{self.folder / 'key'}",
            "pairs": self.pairs,
            "timeframes": list(self.frames),
            "since": _written(self._since)[:10],
            "bars": f"sqlite:///{self.file}",
            "url": self.api.url,
            "pace": 0.0,
            "calendar": "24/7",
            "least": self._least(),
            "settle": f"{self.settle}s",
            "corrections": "take" if self.corrects else "refuse",
            "lease": "20s",
            "backoff": ["5s", "20s"],
            "attempts": 60,
            **self.manner,
            **more,
        }

    @property
    def _since(self) -> int:
        return MIDNIGHT - self.days * DAY

    def _least(self) -> float:
        """Return the share of bars that every tile reaches, and that a tile with hidden bars does not."""
        if self.frames != ("1m",):
            return 0.0
        return (self._fewest - 0.5) / MINUTES

    def _minute(self, ticker: str, start: int) -> None:
        price = 150.0 if ticker.endswith("JPY") else 1.1
        seed = self.random.randrange(2**32)
        self.api.draw(ticker, Span(start, start + MINUTE), seed, missing=0.0, calendar=always(), price=price)

    # ----- what happens

    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        plan: list[tuple[float, Act | Setting]] = []
        for ticker in PAIRS.values():
            plan += self._quoted(ticker)
        for _ in range(self.random.choice((0, 1, 2, 4))):
            plan.append((self._some_time(), self._correct))
        for trouble in self.random.sample(
            (*self._troubles, self._garbles),
            self.random.randint(0, 4),
        ):
            since = self.random.choice((0.0, self._some_time()))
            plan += [
                (since, partial(trouble, True)),
                (since + self.random.uniform(2, 60), partial(trouble, False)),
            ]
        if self.random.random() < 0.5:
            plan += self._limited()
        if self.frames == ("1m",) and self.random.random() < 0.4:
            self._hide()
            if self.random.random() < 0.5:
                plan.append((self._some_time(), self.api.hidden.clear))
        if self.grows:
            plan.append((self._some_time(), self._want_more))
        return plan

    def _some_time(self) -> float:
        return self.random.uniform(0, self.span * 0.9)

    def _quoted(self, ticker: str) -> Iterator[tuple[float, Act]]:
        """Let minutes begin and change while they run, and for as long as `settle` allows."""
        first = int(self.began) // MINUTE * MINUTE
        for start in range(first, int(self.began + self.span * 0.8), MINUTE):
            if self.random.random() < 0.2:
                continue
            ends = start - self.began + MINUTE
            last = ends + self.settle - AHEAD - 1
            at = min(max(start - self.began, 0.0) + self.random.uniform(0, 10), last)
            yield at, partial(self._minute, ticker, start)
            for _ in range(self.random.randint(0, 2)):
                later = self.random.choice((self.random.uniform(at, ends), self.random.uniform(ends, last)))
                yield max(at, later), partial(self._change, ticker, start)

    def _change(self, ticker: str, start: int) -> None:
        """Change all that is said about a minute, keeping it a bar that makes sense."""
        if self._garbled and self._garbled[:2] == (ticker, start):
            return
        row = self.api.minutes[ticker][start]
        moved = {name: round(row[name] * 1.0001, 5) for name in ("o", "h", "l", "c", "vw")}
        self.api.correct(ticker, start, **moved, v=row["v"] + 1)

    def _correct(self) -> None:
        """Correct a minute of one of the newest tiles or of any, whether or not it is in."""
        ticker = PAIRS[self.random.choice(self.pairs)]
        starts = sorted(self.api.minutes[ticker])
        self._change(ticker, self.random.choice(self.random.choice((starts, starts[-4:]))))

    def _limited(self) -> Iterator[tuple[float, Act]]:
        """Let the service show tiles only up to some day, and one day more at a time."""
        self.api.shown_until = self._since
        for day in range(self.days + 1):
            yield self._some_time(), partial(self._show_until, self._since + (day + 1) * DAY)

    def _show_until(self, until: int) -> None:
        if self.api.shown_until is not None:
            self.api.shown_until = max(until, self.api.shown_until)

    def _hide(self) -> None:
        """Hide so much of the newest tile that what is left is not believed."""
        for ticker in PAIRS.values():
            starts = sorted(one for one in self.api.minutes[ticker] if MIDNIGHT - DAY <= one < MIDNIGHT)
            left = self.random.randrange(self._fewest)
            self.api.hidden.append((ticker, Span(starts[left], MIDNIGHT)))

    def _want_more(self) -> None:
        """Change the configuration; workers that start from now on read it."""
        self.days = self.most_days
        self.pairs = list(PAIRS)[: max(len(self.pairs), self.random.randint(1, 2))]

    # ----- what goes wrong

    @property
    def _troubles(self) -> Sequence[Callable[[bool], None]]:
        return (
            self._empty,
            self._failing,
            self._circles,
            self._leads_away,
            self._odd,
            self._garbles,
            self._forgets,
        )

    def _empty(self, on: bool) -> None:
        self.api.empty_between = on

    def _failing(self, on: bool) -> None:
        self.api.failing = Counter({self.random.randint(0, 3): self.random.randint(1, 9)} if on else {})

    def _circles(self, on: bool) -> None:
        self.api.circles = on

    def _leads_away(self, on: bool) -> None:
        self.api.links_to = "http://elsewhere.test" if on else None

    def _odd(self, on: bool) -> None:
        self.api.odd = self.random.sample(ODD, 2) if on else []

    def _garbles(self, on: bool) -> None:
        """Show a bar of the newest tile without its close for some time; the bar is as true as before."""
        if self._garbled:
            ticker, start, row = self._garbled
            self.api.minutes[ticker][start] = row
            self._garbled = None
        if on and self.frames == ("1m",):
            ticker = self.random.choice(list(PAIRS.values()))
            known = self.api.minutes[ticker]
            start = self.random.choice(sorted(one for one in known if one >= MIDNIGHT - DAY))
            self._garbled = ticker, start, known[start]
            known[start] = {**known[start], "c": None}

    def _forgets(self, on: bool) -> None:
        if on:
            forget_new(self.file, self.random.randrange(3))
        else:
            forget_nothing(self.file)

    def calm(self) -> None:
        self.api.mischief.stop()
        self.api.hidden.clear()
        self.api.shown_until = None
        if not self._stays_refused:
            self.api.plan_begins = None
        for trouble in self._troubles:
            trouble(False)

    # ----- the truth

    def expected(self) -> Counter[str]:
        """Name the bars of every tile that is shown, with values that the policy of corrections allows."""
        stored = self._bars.rows()
        found: Counter[str] = Counter()
        for cell in self._wanted():
            if self._is_refused(cell):
                continue
            for start, timeline in timelines(self.journal, cell).items():
                place = (cell.symbol, cell.frame, start)
                row = stored.get(place)
                allowed = self._allowed(cell, start, timeline, row)
                # A correction that came while a tile was asked for may have been seen, or not.
                found[_named(place, row.values if row and row.values in allowed else allowed[-1])] += 1
        return found

    def happened(self) -> Counter[str]:
        return Counter(_named(place, row.values) for place, row in self._bars.rows().items())

    def _allowed(self, cell: Cell, start: int, timeline: Timeline, row: Stored | None) -> list[Values]:
        """Return the values that a bar may have now, the newest last."""
        asked, ended = self._finished.get(cell.key.id, (self.clock(), self.clock()))
        if not self.corrects and row is not None and row.is_final:
            # The first final answer stays. A worker whose clock is ahead took it for final that much earlier.
            asked = start + cell.seconds + self.settle - AHEAD
        return between(timeline, asked, ended)

    def _wanted(self) -> list[Cell]:
        """List the tiles that are wanted by now."""
        return list(self._cells(self.pairs, self._since, min(int(self.clock()) + 1, self.until or 2**62)))

    def _cells(self, pairs: Sequence[str], since: int, until: int) -> Iterator[Cell]:
        for pair in pairs:
            for name in self.frames:
                seconds, step = LENGTHS[name]
                for start in range(since // step * step, until, step):
                    yield Cell(pair, PAIRS[pair], name, seconds, Span(start, start + step))

    def _is_refused(self, cell: Cell) -> bool:
        """Say whether the plan never shows a tile."""
        return self.api.plan_begins is not None and cell.span.since < self.api.plan_begins

    def named(self, key: Key, entry: Entry) -> str | None:
        return None

    def did_happen(self, key: Key, entry: Entry, look: Look) -> bool | None:
        """Say nothing: bars may be stored again at any time, so no tile is ever in doubt."""
        return None

    def is_final(self, key: Key, entry: Entry) -> bool:
        """Say whether a tile may stay open: it is not over, or the plan does not show it."""
        cell = self._ever.get(key.id)
        if cell is None:
            return False
        if entry.state == "parked":
            return self._stays_refused and self._is_refused(cell)
        return cell.span.until > self.clock()

    # ----- whenever something is written

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        if key.scope == CURSORS:
            yield from self._passed(key, entry, look)
        cell = self._ever.get(key.id)
        if cell is None:
            return
        yield from self._rewritten()
        if entry.state == "held" and self._claims.get(key.id, (0, 0.0))[0] != entry.fence:
            self._claims[key.id] = entry.fence, self.clock()
        if entry.state == "parked" and not self._is_refused(cell):
            yield f"{cell.series} from {cell.span.since} is parked, but the plan shows it: {entry.body}"
        if entry.state == "done":
            self._finished[key.id] = self._claims[key.id][1], self.clock()
            yield from self._untrue(cell, json.loads(entry.body or "{}"))

    def _passed(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        """Complain about a cursor with a tile behind it that nobody claimed."""
        at = json.loads(entry.body or "{}").get("at")
        if at is None or key.id not in self._sources:
            return
        behind = [cell for cell in self._sources[key.id] if cell.span.since < at]
        for cell, seen in zip(behind, look([cell.key for cell in behind]), strict=True):
            if seen.entry is None:
                yield f"the cursor of {cell.series} is at {at:.0f}, but nobody claimed {cell.span.since}"

    def _rewritten(self) -> Iterator[str]:
        """Complain about a bar in the table that became worse, or changed although it was final."""
        now = self._bars.rows()
        for place, before in self._table.items():
            row = now.get(place)
            if row is None or row.version < before.version:
                yield f"{place} was stored as {before}, and now is {row}"
            elif not self.corrects and before.is_final and row.values != before.values:
                yield f"{place} was final as {before.values}, and was replaced by {row.values}"
        self._table = now

    def _untrue(self, cell: Cell, known: dict[str, Any]) -> Iterator[str]:
        """Complain about a tile that was marked as in, and is not."""
        where = f"{cell.series} from {cell.span.since} is {known.get('state')}"
        if cell.span.until > self.clock():
            yield f"{where}, but ends in {cell.span.until - self.clock():.0f} s"
        exist = timelines(self.journal, cell)
        missing = [start for start in sorted(exist) if (cell.symbol, cell.frame, start) not in self._table]
        if missing:
            yield f"{where}, but {len(missing)} of its {len(exist)} bars are not stored: {missing[0]} ..."
        if known.get("rows") != len(exist) or known.get("state") != ("complete" if exist else "empty"):
            yield f"{where} with {known.get('rows')} bars, but has {len(exist)}"
        for start, timeline in exist.items():
            row = self._table.get((cell.symbol, cell.frame, start))
            allowed = self._allowed(cell, start, timeline, row)
            if row and (row.values not in allowed or not row.is_final):
                yield f"{where}, but its bar {start} is {row}, not {allowed[-1]}"

    def wrong(self) -> Iterator[str]:
        """Complain about tiles that are over and that nobody finished."""
        for cell in self._wanted():
            over = cell.span.until + self.settle <= self.clock()
            if over and not self._is_refused(cell) and cell.key.id not in self._finished:
                yield f"{cell.series} from {cell.span.since} was never in"


def _written(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _named(place: Place, values: Values) -> str:
    symbol, frame, start = place
    return f"{symbol} {frame} {start}: {', '.join(f'{value:g}' for value in values)}"


def _drawn(random: Random) -> Mischief:
    """Draw how the service misbehaves in one history: some of its tricks, each at a rate of its own."""
    chosen = random.sample(TRICKS, random.randint(0, len(TRICKS)))
    share = 0.2 / max(len(chosen), 1)
    rates = {trick: random.uniform(0.2, 1.0) * share * 2 for trick in chosen}
    return Mischief(random.randrange(2**32), rates, random.choice((0.5, 3.0, 12.0)))
