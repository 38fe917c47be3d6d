"""The file of older downloaders: taken over as far as the table confirms it, and written whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onefold import Ledger
from onefold.apps.candles import periods
from onefold.apps.candles.bars import TIMEFRAMES, Origin, read, stored
from onefold.apps.candles.periods import TakenOver
from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured
from onefold.sinks.bars import BarTable
from onefold.worlds.bars import Bars
from tests.fast.apps.candles import (
    DAY,
    EUR,
    MONDAY,
    NOW,
    TICKER,
    WEEKDAYS,
    coverage,
    settings,
    states,
    worker,
)
from tests.fast.worker.stage import run_until

FRAME = TIMEFRAMES["1m"]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'onefold.db'}")
    yield opened
    opened.close()


@pytest.fixture
def bars(tmp_path: Path) -> Iterator[BarTable]:
    table = BarTable(f"sqlite:///{tmp_path / 'bars.db'}")
    yield table
    table.close()


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'onefold.db'}"


def downloaded(api: Bars, bars: BarTable, *days: int) -> None:
    """Store what an older downloader left: all bars of these days."""
    api.draw(TICKER, WEEKDAYS)
    for day in days:
        tile = Span(MONDAY + day * DAY, MONDAY + (day + 1) * DAY)
        rows = [read(row, EUR, FRAME, tile) for row in api.truth(TICKER, 60, tile)]
        bars.write([stored(row, Origin("polygon_historical", 1, 0), NOW) for row in rows])


def written(folder: Path, *rows: dict[str, Any], name: str = "EUR/USD_1m") -> Path:
    file = folder / "downloaded_periods.json"
    file.write_text(json.dumps({name: list(rows)}))
    return file


def period(start: str, end: str, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "downloaded_at": "2025-10-09T08:00:00Z", **more}


def test_two_adjacent_periods_cover_together_and_what_is_taken_over_is_not_downloaded(tmp_path, ledger, bars):
    # Trap 26: a request had to lie within a single stored period.
    with Bars(now=lambda: NOW) as api:
        downloaded(api, bars, 0, 1)
        file = written(
            tmp_path,
            period("2025-10-06T00:00:00Z", "2025-10-06T11:59:00Z", bars_count=500),
            period("2025-10-06T12:00:00Z", "2025-10-07T23:59:00Z", bars_count=1000),
        )
        assert periods.take_over(file, ledger, bars, now=NOW) == TakenOver(2, 0, 0)
        assert periods.take_over(file, ledger, bars, now=NOW) == TakenOver(0, 2, 0)
        run_until(
            worker(settings(api, tmp_path), url(tmp_path)), lambda: states(url(tmp_path)) == ["complete"] * 3
        )

    assert {line["since"] // DAY * DAY for line in api.journal.of("page")} == {MONDAY + 2 * DAY}


def test_only_what_the_table_confirms_is_taken_over(tmp_path, ledger, bars):
    # Trap 25 again: the file says so, and the bars never arrived. Trap 24: and the future was never there.
    with Bars(now=lambda: NOW) as api:
        downloaded(api, bars, 0)
    file = written(
        tmp_path,
        period("2025-10-06", "2025-10-07", bars_count=1440 * 9 // 10),
        period("2025-10-07", "2025-10-08", bars_count=1440),
        period("2025-10-08", "2025-10-09"),
        period("2025-10-13", "2025-10-20"),
    )

    assert periods.take_over(file, ledger, bars, now=NOW) == TakenOver(1, 0, 2)
    assert [(one.span.since, one.state) for one in coverage(url(tmp_path))] == [(MONDAY, "complete")]


def test_a_period_that_claims_more_than_the_table_holds_is_not_believed(tmp_path, ledger, bars):
    # Trap 28: the count was stored and never compared.
    with Bars(now=lambda: NOW) as api:
        downloaded(api, bars, 0)

    file = written(tmp_path, period("2025-10-06", "2025-10-07", bars_count=99_999))

    assert periods.take_over(file, ledger, bars, now=NOW) == TakenOver(0, 0, 1)


def test_a_weekend_is_taken_over_as_empty(tmp_path, ledger, bars):
    file = written(tmp_path, period("2025-10-11", "2025-10-12", bars_count=0))

    assert periods.take_over(file, ledger, bars, now=NOW) == TakenOver(1, 0, 0)
    assert states(url(tmp_path), Span(MONDAY + 5 * DAY, MONDAY + 6 * DAY)) == ["empty"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"EUR/USD_1m": [{"start": "2025-10-06", "en', "torn while it was written. Nothing was taken"),
        ("[]", "no object of periods"),
        ('{"EURUSD": []}', "a pair and a timeframe"),
        ('{"EUR/USD_2m": []}', "a pair and a timeframe"),
        ('{"EUR/USD_1m": [{"start": "2025-10-06"}]}', "cannot be read: 'end'"),
        ('{"EUR/USD_1m": [{"start": 5, "end": 6}]}', "5 is no time"),
        ('{"EUR/USD_1m": [{"start": "2025-10-06T00:00:00", "end": "2025-10-07"}]}', "without a time zone"),
    ],
)
def test_a_file_that_is_torn_or_makes_no_sense_is_refused_as_a_whole(tmp_path, ledger, bars, text, says):
    # Traps 29 and 30.
    file = tmp_path / "downloaded_periods.json"
    file.write_text(text)

    with pytest.raises(Misconfigured, match=says):
        periods.take_over(file, ledger, bars, now=NOW)


def test_a_file_that_is_missing_is_told(tmp_path, ledger, bars):
    with pytest.raises(Misconfigured, match="there is no file"):
        periods.take_over(tmp_path / "nothing.json", ledger, bars)


def test_what_is_in_is_written_for_older_readers_and_can_be_taken_over_again(tmp_path, ledger, bars):
    with Bars(now=lambda: NOW) as api:
        api.draw(TICKER, WEEKDAYS)
        run_until(
            worker(settings(api, tmp_path), url(tmp_path)), lambda: states(url(tmp_path)) == ["complete"] * 3
        )
    file = tmp_path / "downloaded_periods.json"
    file.write_text("{")

    assert periods.write(file, ledger) == 1

    [row] = json.loads(file.read_text())["EUR/USD_1m"]
    assert (row["start"], row["end"]) == ("2025-10-06T00:00:00Z", "2025-10-08T23:59:00Z")
    assert row["bars_count"] == len(bars.read(EUR, "1m", WEEKDAYS))
    assert not list(tmp_path.glob("*.new"))
    other = Ledger(f"sqlite:///{tmp_path / 'other.db'}")
    assert periods.take_over(file, other, bars, now=NOW) == TakenOver(3, 0, 0)
    other.close()
