"""Candles: every bar that the service has is stored once, and a tile is in when the sink says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from onefold import Ledger
from onefold.apps.candles.bars import TIMEFRAMES, series
from onefold.apps.candles.transport import Embedded, Message
from onefold.core.coverage import Span, gaps
from onefold.core.entry import Entry
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.sinks.bars import BarRow, BarTable, Kept
from onefold.stores import connect
from onefold.worlds.mischief import Mischief
from tests.databases import SQLITE
from tests.fast.apps.candles import (
    DAY,
    EUR,
    MONDAY,
    TICKER,
    WEEKDAYS,
    all_in,
    calmly,
    coverage,
    settings,
    states,
    stored,
    truth,
    worker,
    world,
)
from tests.fast.apps.lives import run_until_killed
from tests.fast.cli.stage import Cli
from tests.fast.worker.stage import run_until
from tests.waiting import until


@pytest.fixture(params=[SQLITE])
def places(tmp_path: Path) -> tuple[str, str]:
    """Return a ledger and a database for bars; tests/servers/apps gives them on a server."""
    return f"sqlite:///{tmp_path / 'onefold.db'}", f"sqlite:///{tmp_path / 'bars.db'}"


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def test_every_bar_is_stored_once_through_trouble_and_a_restart(places, tmp_path):
    store, bars = places
    tricks = Mischief(5, {"busy": 0.1, "error": 0.1, "half": 0.1, "garbage": 0.05, "cut-before": 0.05})
    with world(page=400, mischief=tricks) as api:
        api.draw(TICKER, WEEKDAYS, 1)
        api.draw("C:USDJPY", WEEKDAYS, 2, price=150.0)
        said = settings(api, tmp_path, pairs=(EUR, "USD/JPY"), bars=bars)
        run_until(worker(said, store), lambda: len(api.journal.of("page")) >= 6)
        wanted = truth(api, WEEKDAYS) | truth(api, WEEKDAYS, symbol="USD/JPY")

        def both() -> bool:
            return all_in(store) and states(store, symbol="USD/JPY") == ["complete"] * 3

        run_until(worker(said, store), calmly(both))

    assert stored(bars) == wanted
    assert sum(one.rows for one in coverage(store)) == len(truth(api, WEEKDAYS))
    assert gaps(WEEKDAYS, coverage(store)) == []


def test_what_is_in_is_not_asked_for_again_and_a_wider_wish_asks_for_the_rest_alone(ledger, tmp_path):
    earlier = Span(MONDAY - DAY, MONDAY)
    with world() as api:
        api.draw(TICKER, Span(earlier.since, WEEKDAYS.until))
        run_until(worker(settings(api, tmp_path), ledger), lambda: all_in(ledger))
        asked = len(api.journal.of("page"))
        wider = settings(api, tmp_path, since="2025-10-05")
        run_until(worker(wider, ledger), lambda: states(ledger, earlier) == ["complete"])
        again = api.journal.of("page")[asked:]

    assert {line["since"] // DAY * DAY for line in again} == {earlier.since}
    assert len(stored(wider.bars)) == len(truth(api, Span(earlier.since, WEEKDAYS.until)))


def test_two_workers_share_the_tiles_and_ask_for_none_twice(ledger, tmp_path):
    # Every answer takes a while, until both workers have begun.
    with world(mischief=Mischief(0, {"stall": 1.0}, 5.0)) as api:
        month = Span(MONDAY - 28 * DAY, MONDAY)
        api.draw(TICKER, month, missing=0.9)
        said = settings(api, tmp_path, since="2025-09-08", until="2025-10-06", least=0.01, parallel=3)
        workers = [worker(said, ledger, once=True) for _ in range(2)]

        async def both() -> None:
            async with anyio.create_task_group() as group:
                for one in workers:
                    group.start_soon(one.arun)
                # Each claims two pages of three, and no more: whoever begins late finds enough left.
                await until(lambda: all(one.tallies["candles"].total("won") >= 5 for one in workers))
                api.mischief.stop()

        anyio.run(both)
        for _ in range(5):  # what one left to the other while it was busy
            if not gaps(month, coverage(ledger, month)):
                break
            anyio.run(worker(said, ledger, once=True).arun)

    assert gaps(month, coverage(ledger, month)) == []
    assert all(one.tallies["candles"].total("done") >= 5 for one in workers)
    assert set(Counter(line["since"] // DAY for line in api.journal.of("page")).values()) == {1}


# ----- what is in


class Lossy(Embedded):
    """A stream that loses half of every batch for a while, and says that it took all of it."""

    losing = True

    async def publish(self, messages: Sequence[Message]) -> None:
        await super().publish(messages[: len(messages) // 2] if self.losing else messages)


def test_a_tile_is_not_in_when_it_was_published_but_when_the_sink_has_it(ledger, tmp_path):
    # Trap 25: marked after publishing, a message that is lost makes the hole permanent.
    seen: list[str] = []
    stream = Lossy()
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, until="2025-10-07")

        def partial_first() -> bool:
            seen.extend(states(ledger))
            stream.losing = not seen
            return states(ledger) == ["complete"]

        run_until(worker(said, ledger, transport=stream), partial_first)

    assert seen[0] == "partial"
    assert len(stored(said.bars)) == len(truth(api, Span(MONDAY, MONDAY + DAY)))


def test_the_future_is_never_marked_and_the_present_day_is_provisional_until_it_settled(ledger, tmp_path):
    # Trap 24: the period was recorded up to two days ahead, and never fetched.
    present = MONDAY + DAY + 36_000
    week = Span(MONDAY, MONDAY + 5 * DAY)
    with world(now=present) as api:
        api.draw(TICKER, week)
        said = settings(api, tmp_path, until="2025-10-11")
        run_until(
            worker(said, ledger, now=present), lambda: states(ledger, week) == ["complete", "provisional"]
        )
        before = stored(said.bars)
        api.now = lambda: present + DAY
        run_until(
            worker(said, ledger, now=present + DAY),
            lambda: states(ledger, week) == ["complete", "complete", "provisional"],
        )

    assert max(start for _, _, start in before) <= present * 1000
    assert stored(said.bars) == truth(api, week)


def test_the_unfinished_bar_is_provisional_and_refreshed(ledger, tmp_path):
    # E14. The hour that runs is made of the minutes so far; the next answer replaces it.
    present = MONDAY + 10 * 3600 + 1800
    with world(now=present) as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, timeframes=("1h",))
        hour = (EUR, "1h", (MONDAY + 10 * 3600) * 1000)
        span = Span(MONDAY, MONDAY + DAY)
        run_until(worker(said, ledger, now=present), lambda: "provisional" in states(ledger, span, "1h"))
        first = stored(said.bars)[hour]
        api.now = lambda: present + 3600

        def refreshed() -> bool:
            return stored(said.bars)[hour] != first

        run_until(worker(said, ledger, now=present + 3600), refreshed)

    assert stored(said.bars)[hour] == truth(api, span, "1h")[hour]


def test_a_worker_whose_settings_lack_a_pair_leaves_its_tiles_to_others(ledger, tmp_path):
    # A pair is added to one worker after another; the others find its open tiles among what is due.
    noon, day = MONDAY + DAY // 2, Span(MONDAY, MONDAY + DAY)
    with world(now=noon) as api:
        api.draw(TICKER, day)
        api.draw("C:USDJPY", day, price=150.0)
        both = settings(api, tmp_path, pairs=(EUR, "USD/JPY"))
        run_until(worker(both, ledger, now=noon), lambda: bool(states(ledger, day, symbol="USD/JPY")))
        of_yen = series("USD/JPY", TIMEFRAMES["1m"]).key(MONDAY)
        before = _entry(ledger, of_yen)

        def is_left() -> bool:
            return "do not want USD/JPY" in (_entry(ledger, of_yen).body or "")

        run_until(worker(settings(api, tmp_path), ledger, now=noon), is_left)

    after = _entry(ledger, of_yen)
    assert (after.state, after.attempt) == ("free", before.attempt)


def _entry(store: str, key: Key) -> Entry:
    """Read what the store knows of a tile."""
    with closing(connect(store)) as opened:
        [seen] = opened.get([key])
    assert seen.entry
    return seen.entry


def test_bars_of_one_minute_and_of_five_that_start_together_are_two(ledger, tmp_path):
    # E14: the seed's bridge left the timeframe out of its ids.
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, timeframes=("1m", "5m"))
        week = Span(MONDAY, MONDAY + 3 * DAY)
        run_until(
            worker(said, ledger), lambda: all_in(ledger) and set(states(ledger, week, "5m")) == {"complete"}
        )

    frames = Counter(frame for _, frame, _ in stored(said.bars))
    assert frames["1m"] == len(truth(api, WEEKDAYS))
    assert {key for key in stored(said.bars) if key[1] == "5m"} >= set(truth(api, WEEKDAYS, "5m"))


def test_minutes_without_a_quote_have_no_bar_and_are_no_gap(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS, missing=0.2)
        said = settings(api, tmp_path)
        run_until(worker(said, ledger), lambda: all_in(ledger))

    assert 0 < len(stored(said.bars)) < 3 * 1440 * 0.85
    assert states(ledger) == ["complete"] * 3


def test_a_weekend_is_empty_and_asked_for_once(ledger, tmp_path):
    saturday = Span(MONDAY + 5 * DAY, MONDAY + 6 * DAY)
    with world() as api:
        said = settings(api, tmp_path, since="2025-10-11", until="2025-10-12")
        run_until(worker(said, ledger), lambda: states(ledger, saturday) == ["empty"])

    assert len(api.journal.of("page")) == 1


def test_a_day_without_bars_while_the_market_was_open_is_not_in_unless_it_is_a_holiday(ledger, tmp_path):
    # Trap 28: an answer that was cut counted as complete.
    with world() as api:
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])
        said = settings(api, tmp_path, since="2025-10-07", until="2025-10-08", holidays=("2025-10-07",))
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial", "empty"])


def retry(ledger: str, since: int) -> None:
    """Let an operator ask for a tile again."""
    result = Cli()("retry", "candles", "EUR/USD 1m", str(since), "--store", ledger, "-y")
    assert result.exit_code == 0, result.output


def test_a_day_that_turns_out_to_be_a_holiday_is_asked_for_by_retry(ledger, tmp_path):
    with world() as api:
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])
        retry(ledger, MONDAY)
        said = settings(api, tmp_path, until="2025-10-07", holidays=("2025-10-06",))
        run_until(worker(said, ledger), lambda: states(ledger) == ["empty"])


def test_an_answer_with_far_too_few_bars_is_partial_and_asked_for_again(ledger, tmp_path):
    # Trap 28. It was over a moment ago, so that the next asking comes soon; of an old day it comes late.
    just_over = MONDAY + DAY + 2
    with world(now=just_over) as api:
        api.draw(TICKER, Span(MONDAY, MONDAY + DAY))
        api.hidden.append((TICKER, Span(MONDAY + 3600, MONDAY + DAY)))
        said = settings(api, tmp_path, until="2025-10-07", settle="1s")
        run_until(worker(said, ledger, now=just_over), lambda: states(ledger) == ["partial"])
        api.hidden.clear()
        run_until(worker(said, ledger, now=just_over), lambda: states(ledger) == ["complete"])

    assert stored(said.bars) == truth(api, WEEKDAYS)


def test_a_hole_inside_is_found_although_the_newest_bar_is_in(ledger, tmp_path):
    # Trap 23: only the smallest and the largest time were looked at.
    middle = Span(MONDAY + DAY, MONDAY + 2 * DAY)
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        for since, until in (("2025-10-06", "2025-10-07"), ("2025-10-08", "2025-10-09")):
            said = settings(api, tmp_path, since=since, until=until)
            wanted = 1 if since.endswith("06") else 2
            run_until(worker(said, ledger), lambda: len(states(ledger)) == wanted)  # noqa: B023
        assert gaps(WEEKDAYS, coverage(ledger)) == [middle]
        before = len(api.journal.of("page"))
        run_until(worker(settings(api, tmp_path), ledger), lambda: all_in(ledger))

    assert {line["since"] // DAY * DAY for line in api.journal.of("page")[before:]} == {middle.since}


def test_a_corrected_bar_replaces_the_old_one_and_is_counted(ledger, tmp_path):
    # E14, traps 34 and 35.
    monday = Span(MONDAY, MONDAY + DAY)
    with world() as api:
        api.draw(TICKER, monday)
        start = min(api.minutes[TICKER])
        said = settings(api, tmp_path, until="2025-10-07")
        api.failing[2] = 10_000  # the first worker sees only what comes before the third page
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])
        api.failing.clear()
        row = api.minutes[TICKER][start]
        api.correct(TICKER, start, c=row["o"], v=row["v"] + 1)
        run_until(worker(said, ledger), lambda: states(ledger) == ["complete"])

    assert stored(said.bars) == truth(api, monday)
    table = BarTable(said.bars)
    conflicts = table.read(EUR, "1m", monday)
    table.close()
    assert {one: number for one, number in conflicts.items() if number} == {start: 1}


def test_rows_that_are_no_bars_are_left_out_and_told(ledger, tmp_path):
    odd: list[Any] = [{"t": 5}, "x", {"t": (MONDAY + 60) * 1000, "o": 1, "h": 0.5, "l": 2, "c": 1, "v": 1}]
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.odd = odd
        said = settings(api, tmp_path)
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"] * 3)
        api.odd = []
        for day in range(3):
            retry(ledger, MONDAY + day * DAY)
        run_until(worker(said, ledger), lambda: all_in(ledger))

    assert stored(said.bars) == truth(api, WEEKDAYS)


def test_a_day_with_refused_rows_is_not_in_and_each_row_is_listed_with_its_reason(ledger, tmp_path):
    # A third of the rows of one day is refused, and it showed as "100.0% in".
    monday = Span(MONDAY, MONDAY + DAY)
    with world(page=5000) as api:
        api.draw(TICKER, monday)
        hurt = sorted(api.minutes[TICKER])[::3]
        for start in hurt:
            api.correct(TICKER, start, v=-1)
        said = settings(api, tmp_path, until="2025-10-07")
        one = worker(said, ledger)
        run_until(one, lambda: states(ledger) == ["partial"])
        [tile] = coverage(ledger)

    shown = Cli()("coverage", "--store", ledger)
    opened = Ledger(ledger)
    parked = [entry for _, entry in opened.entries("candles.broken", "parked")]
    opened.close()
    assert len(stored(said.bars)) == tile.rows == len(api.minutes[TICKER]) - len(hurt)
    assert tile.refused == len(hurt) == len(parked)
    assert {entry.why for entry in parked} == {"failed"}
    assert all(
        "EUR/USD 1m from 2025-10-06T00:00:00Z: its v is -1.0, below zero" in str(e.body) for e in parked
    )
    assert [number for (count, _), number in one.tallies["candles"].counts.items() if count == "broken"] == [
        len(hurt)
    ]
    assert f"{len(hurt)} rows refused" in shown.stdout
    assert "its v is -1.0, below zero" in shown.stdout
    assert "0.0% in" in shown.stdout


class Away(BarTable):
    """A table whose database does not answer for a while."""

    away = 2

    def write(self, rows: Sequence[BarRow]) -> Kept:
        if self.away:
            self.away -= 1
            raise Unreachable("the database did not answer")
        return super().write(rows)


def test_bars_that_cannot_be_stored_are_asked_for_again_and_use_up_no_attempt(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, until="2025-10-07")
        table = Away(said.bars)
        run_until(worker(said, ledger, sink=table), lambda: states(ledger) == ["complete"])

    assert table.away == 0
    assert len(stored(said.bars)) == len(truth(api, Span(MONDAY, MONDAY + DAY)))


def test_a_correction_that_is_refused_is_counted_and_changes_nothing(ledger, tmp_path):
    monday = Span(MONDAY, MONDAY + DAY)
    with world() as api:
        api.draw(TICKER, monday)
        said = settings(api, tmp_path, until="2025-10-07", corrections="refuse")
        before = truth(api, monday)
        api.failing[2] = 10_000
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])
        api.failing.clear()
        start = min(api.minutes[TICKER])
        api.correct(TICKER, start, v=99_999)
        run_until(worker(said, ledger), lambda: states(ledger) == ["complete"])

    assert stored(said.bars) == before
    table = BarTable(said.bars)
    assert table.read(EUR, "1m", monday)[start] == 1
    table.close()


# ----- a hard kill


@pytest.mark.parametrize("pages", range(1, 9, 2))
def test_a_worker_killed_in_the_middle_of_a_tile_loses_nothing_and_stores_nothing_twice(
    places, tmp_path, pages
):
    store, bars = places
    with world(page=200, mischief=Mischief(1, {"stall": 0.3}, 0.1)) as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, bars=bars)
        run_until_killed(worker(said, store, lease=2), lambda: len(api.journal.of("page")) >= pages)
        assert not all_in(store)
        code = run_until(worker(said, store, lease=2), calmly(lambda: all_in(store)))

    assert code == 0
    assert stored(bars) == truth(api, WEEKDAYS)
