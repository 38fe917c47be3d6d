"""Bars, tiles and settings of candles, decided by tables: what names a bar, what is wrong, what counts."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from onefold.apps.candles import Settings, pipelines
from onefold.apps.candles.bars import (
    TIMEFRAMES,
    Bar,
    Origin,
    checked,
    moment,
    pip,
    range_pips,
    read,
    series,
)
from onefold.apps.candles.bars import stored as as_stored
from onefold.apps.candles.download import read_page
from onefold.apps.candles.filling import Verdict, pause, stands
from onefold.apps.candles.pipeline import manner, market, point, ticker, wanted
from onefold.apps.candles.progress import Progress
from onefold.apps.candles.transport import message
from onefold.core.calendar import expected
from onefold.core.coverage import Span, tiles
from onefold.core.errors import Misconfigured
from onefold.core.record import Broken
from onefold.core.wire import Unreadable, parse
from onefold.worker.configuration import parsed
from onefold.worker.loading import chosen
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from tests.checkout import FIXTURES
from tests.fast.apps.candles import DAY, MONDAY

MINUTE, FIVE, DAILY = TIMEFRAMES["1m"], TIMEFRAMES["5m"], TIMEFRAMES["1d"]
TILE = Span(MONDAY, MONDAY + DAY)
ROW: dict[str, Any] = {
    "t": MONDAY * 1000,
    "o": 1.085,
    "h": 1.0855,
    "l": 1.0848,
    "c": 1.0852,
    "v": 1250,
    "vw": 1.0851,
}
NAN, HUGE = parse("[NaN, 1e999]")


def test_a_row_becomes_a_bar():
    assert read(ROW, "EUR/USD", MINUTE, TILE) == Bar(
        "EUR/USD", "1m", MONDAY, 1.085, 1.0855, 1.0848, 1.0852, 1250.0, 1.0851
    )
    assert read({**ROW, "vw": None}, "EUR/USD", MINUTE, TILE).vwap is None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("x", "no object"),
        ({**ROW, "o": NAN}, "NaN"),
        ({**ROW, "h": HUGE}, "too large"),
        ({**ROW, "o": 0}, "not above zero"),
        ({**ROW, "l": -1.0}, "not above zero"),
        ({**ROW, "c": None}, "no number"),
        ({**ROW, "c": True}, "no number"),
        ({**ROW, "h": 1.0}, "between its low and its high"),
        ({**ROW, "l": 1.0851}, "between its low and its high"),
        ({**ROW, "v": -1}, "below zero"),
        ({**ROW, "t": 10**200}, "no bar of 1m starts"),
        ({**ROW, "t": 60_000 * 10**200}, "outside of what was asked for"),
        ({**ROW, "t": -60_000 * 10**390}, "outside of what was asked for"),
        ({**ROW, "v": 10**399}, "no number"),
        ({**ROW, "v": 1e300}, "larger than any price or volume is"),
        ({**ROW, "h": 1e300}, "larger than any price or volume is"),
        ({**ROW, "T": "C:GBPUSD"}, "it is about 'C:GBPUSD', and C:EURUSD was asked for"),
        ({**ROW, "T": None}, "it is about None"),
        ({**ROW, "t": None}, "no whole number"),
        ({**ROW, "t": MONDAY * 1000 + 1}, "no bar of 1m starts"),
        ({**ROW, "t": (MONDAY + 30) * 1000}, "no bar of 1m starts"),
        ({**ROW, "t": (MONDAY - 60) * 1000}, "outside of what was asked for"),
        ({**ROW, "t": (MONDAY + DAY) * 1000}, "outside of what was asked for"),
    ],
)
def test_a_row_that_is_no_bar_is_refused_with_the_reason(row, says):
    with pytest.raises(ValueError, match=says):
        read(row, "EUR/USD", MINUTE, TILE, "C:EURUSD")


@pytest.mark.parametrize("odd", [0, -1.0, "1.08", True, [1], {}, NAN, HUGE, 10**399])
def test_an_average_that_makes_no_sense_is_dropped_and_its_bar_is_kept(odd):
    found = checked([{**ROW, "vw": odd}], "EUR/USD", MINUTE, TILE)

    assert (found.bars, found.invalid) == ([read({**ROW, "vw": None}, "EUR/USD", MINUTE, TILE)], [])
    assert found.unweighted == 1


def test_a_bar_that_stands_twice_in_one_answer_is_counted_and_kept_once():
    # E14. Of two that differ, the one made of more quotes knew more, wherever it stands.
    more = {**ROW, "c": 1.0853, "v": 1300}
    later = {**ROW, "t": (MONDAY + 60) * 1000}

    found = checked([later, ROW, dict(ROW), more, dict(ROW), {}], "EUR/USD", MINUTE, TILE)

    assert [(bar.start, bar.close) for bar in found.bars] == [(MONDAY, 1.0853), (MONDAY + 60, 1.0852)]
    assert (found.repeated, found.differing, len(found.invalid)) == (1, 2, 1)


@pytest.mark.parametrize(
    ("symbol", "high", "low", "pips"),
    [
        ("EUR/USD", 1.0855, 1.0848, 7.0),
        ("USD/JPY", 149.85, 149.5, 35.0),
        ("XAU/USD", 2651.2, 2650.3, 90.0),
        ("XAG/USD", 30.45, 30.12, 33.0),
        ("C:XAGUSD", 30.45, 30.12, 33.0),
        ("XPT/USD", 951.25, 951.0, 25.0),
        ("USD/KRW", 1385.75, 1385.5, 25.0),
        ("C:USDKRW", 1385.75, 1385.5, 25.0),
        ("EUR/HUF", 390.5, 390.25, 25.0),
        ("X:BTCUSD", 64_250.5, 64_250.0, 50.0),
        ("BTC/USD", 64_250.5, 64_250.0, 50.0),
        ("X:ETHUSDT", 3000.25, 3000.0, 25.0),
        ("X:ETHBTC", 0.0525, 0.05, 25.0),
        ("X:DOGEUSD", 0.125, 0.1225, 25.0),
        ("USD/CHF", 0.89, 0.8875, 25.0),
    ],
)
def test_pips_are_right_for_yen_won_metals_and_coins_too(symbol, high, low, pips):
    bar = Bar(symbol, "1m", 0, low, high, low, high, 1, None)

    assert range_pips(bar) == pips
    assert (high - low) / float(pip(symbol)) == pytest.approx(pips)


def test_the_key_of_a_bar_is_made_of_parts_and_not_of_one_joined_text():
    # Trap 37: joined with an underscore, two different bars could share a key.
    assert series("EUR/USD", MINUTE).key(MONDAY) != series("EUR/USD", FIVE).key(
        MONDAY // FIVE.tile * FIVE.tile
    )
    bar = read(ROW, "EUR/USD", MINUTE, TILE)
    told = message(as_stored(bar, Origin("polygon_historical", 1, 7), MONDAY + DAY))

    assert told.key == bar.key == ("EUR/USD", "1m", MONDAY)
    assert told.subject == "bars.EURUSD.1m"


def test_the_time_in_the_seeds_example_lies_in_2024():
    # Trap 38.
    assert moment(1_728_561_600_000 // 1000) == "2024-10-10T12:00:00Z"


@pytest.mark.parametrize(
    ("now", "corrects", "version"),
    [
        (MONDAY + 59, True, (1, 0, 7)),
        (MONDAY + 60, True, (1, 1, 7)),
        (MONDAY + 60, False, (1, 1, 0)),
        (MONDAY + 59, False, (1, 0, 7)),
    ],
)
def test_a_version_is_rank_finality_and_revision_and_never_the_time_of_arrival(now, corrects, version):
    bar = read(ROW, "EUR/USD", MINUTE, TILE)

    assert as_stored(bar, Origin("polygon_historical", 1, 7, corrects), now).version == version


# ----- answers


def test_an_answer_without_results_is_empty_and_may_go_on():
    assert read_page({"status": "OK"}, "C:EURUSD") == ([], None)
    assert read_page({"status": "DELAYED", "next_url": "u"}, "C:EURUSD") == ([], "u")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "no object"),
        ({"status": "ERROR"}, "neither OK nor DELAYED"),
        ({}, "neither OK nor DELAYED"),
        ({"status": "OK", "ticker": "C:GBPUSD"}, "about ticker C:GBPUSD"),
        ({"status": "OK", "ticker": None}, "about ticker null"),
        ({"status": "OK", "results": [ROW]}, "about ticker null"),
        ({"status": "OK", "ticker": "C:EURUSD", "multiplier": 5}, "about multiplier 5, and 1 was"),
        ({"status": "OK", "ticker": "C:EURUSD", "multiplier": True}, "about multiplier true, and 1 was"),
        ({"status": "OK", "ticker": "C:EURUSD", "timespan": "day"}, "about timespan day, and minute was"),
        ({"status": "OK", "results": {"a": 1}}, "no list"),
        ({"status": "OK", "results": {}}, "no list"),
        ({"status": "OK", "results": ""}, "no list"),
        ({"status": "OK", "next_url": 5}, "no text"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(body, says):
    with pytest.raises(Unreadable, match=says):
        read_page(body, "C:EURUSD", MINUTE)


# ----- how a tile stands


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "complete"),
        ({"trouble": Unreadable("page 2 failed")}, "partial"),
        ({"confirmed": 9}, "partial"),
        ({"closed": False}, "provisional"),
        ({"closed": False, "confirmed": 9}, "partial"),
        ({"likely": 11.0}, "partial"),
        ({"shown": 0, "confirmed": 0, "likely": 0.0}, "empty"),
        ({"shown": 0, "confirmed": 0, "likely": 1.0}, "partial"),
        ({"refused": [Broken("{}", "it is none")]}, "partial"),
        ({"refused": [Broken("{}", "it is none")], "closed": False}, "provisional"),
    ],
)
def test_a_tile_is_judged_by_what_was_shown_and_confirmed(given, state):
    fine = {"trouble": None, "shown": 10, "confirmed": 10, "likely": 5.0, "closed": True}

    verdict = stands(**{**fine, **given})

    assert verdict.state == state
    assert bool(verdict.reason) == (state not in ("complete", "empty"))


def test_the_longer_a_day_is_over_the_later_a_doubtful_answer_is_asked_for_again():
    how = manner(said())
    doubted = Verdict("partial", "few", True)

    assert pause(Verdict("provisional"), how, -100) == 300
    assert pause(Verdict("partial", "page 2 failed"), how, 10 * DAY) == 30
    assert pause(doubted, how, 10) == 30
    assert stands(None, 2, 2, 1.0, True, [Broken("{}", "it is none")]).doubted
    assert pause(doubted, how, 10 * DAY) == DAY


@pytest.mark.parametrize(
    ("since", "until", "bars"),
    [
        ("2025-10-06", "2025-10-07", 1440),  # a Monday
        ("2025-10-10", "2025-10-11", 1260),  # Friday, until 17:00 in New York's summer
        ("2026-01-09", "2026-01-10", 1320),  # the same in winter: an hour later in UTC
        ("2025-10-11", "2025-10-12", 0),  # Saturday
        ("2025-10-12", "2025-10-13", 180),  # Sunday, from 17:00 in summer
        ("2026-03-08", "2026-03-09", 180),  # Sunday on which New York's clocks changed
        ("2025-12-25", "2025-12-26", 0),  # a holiday that the settings name
    ],
)
def test_weekends_holidays_and_daylight_saving_make_the_expected_counts(since, until, bars):
    calendar = market("fx", ["2025-12-25"])

    assert expected(Span(point(since, "since"), point(until, "until")), 60, calendar) == bars


# ----- settings


def said(**more: Any) -> Settings:
    return Settings(**{"api_key": Secret("a-key-0123"), "pairs": ("EUR/USD",), "since": "2025-10-08", **more})


def test_periods_are_half_open_and_of_utc():
    # Trap 27: 8 to 10 October was called two days and, with an inclusive end, three.
    [one] = wanted(said(until="2025-10-10"))

    assert one.since == MONDAY + 2 * DAY
    assert [span.since for span in tiles(Span(one.since, one.until or 0), one.frame.tile)] == [
        MONDAY + 2 * DAY,
        MONDAY + 3 * DAY,
    ]
    assert point("2025-10-08T02:00:00+02:00", "since") == MONDAY + 2 * DAY


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pairs": ()}, "pairs is empty"),
        ({"pairs": ("EURUSD",)}, "write it like"),
        ({"pairs": ("eur/usd",)}, "write it like"),
        ({"timeframes": ("2m",)}, "names no timeframe: write one of 1m, 5m"),
        ({"since": "2025-10-08T00:00:00"}, "since of .apps.candles. is .*without a time zone"),  # trap 30
        ({"since": "yesterday"}, "since of .apps.candles. is 'yesterday'"),
        ({"until": "2025-10-08"}, "not after since"),
        ({"parallel": 0}, "parallel is 0"),
        ({"least": 2.0}, "least is 2.0"),
        ({"pace": -1.0}, "pace is -1.0"),
        ({"settle": "soon"}, "settle of .apps.candles. is 'soon'"),
        ({"holidays": ("Christmas",)}, "a day in holidays"),
        ({"bars": "mariadb://h/d"}, "SQLite or PostgreSQL"),
        ({"bars": "what"}, "names no database"),
        ({"table": "bars; drop"}, "plain name"),
        ({"url": "ftp://x"}, "web site"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, says):
    with pytest.raises((Misconfigured, ValueError), match=says):
        pipelines(said(**change), Live())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pairs": None}, "needs pairs: add it to onefold.toml"),
        ({"api_key": None}, "needs api_key"),
        ({"api_key": "in-the-clear"}, "in the clear"),
        ({"sinc": "2025-10-08"}, "no setting 'sinc': did you mean since"),
        ({"parallel": 0}, "parallel is 0"),
    ],
)
def test_a_section_that_is_wrong_is_told_with_the_name_of_the_setting(change, says, monkeypatch, tmp_path):
    monkeypatch.setenv("BARS_KEY", "a-key-0123")
    section = {"api_key": "env:BARS_KEY", "pairs": ["EUR/USD"], "since": "2025-10-08", **change}
    section = {name: value for name, value in section.items() if value is not None}

    with pytest.raises(Misconfigured, match=says):
        chosen(["candles"], parsed({"apps": {"candles": section}}, "", tmp_path / "onefold.toml"), Live())


def test_a_database_of_bars_may_be_named_by_a_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("BARS_KEY", "a-key-0123")
    monkeypatch.setenv("BARS_DB", f"sqlite:///{tmp_path}/bars.db")
    section = {"api_key": "env:BARS_KEY", "pairs": ["EUR/USD"], "since": "2025-10-08", "bars": "env:BARS_DB"}

    [made] = chosen(
        ["candles"], parsed({"apps": {"candles": section}}, "", tmp_path / "onefold.toml"), Live()
    )

    assert list(made.sources) == ["EUR/USD 1m since 2025-10-08"]
    assert not (tmp_path / "bars.db").exists()


def test_a_pair_is_named_as_the_service_names_it():
    assert ticker("XAU/USD") == "C:XAUUSD"
    assert ticker("X:BTCUSD") == "X:BTCUSD"


class Terminal(io.StringIO):
    """A stream that says it is a terminal, or not."""

    def __init__(self, there: bool) -> None:
        super().__init__()
        self.there = there

    def isatty(self) -> bool:
        return self.there


@pytest.mark.parametrize("there", [True, False])
def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(there):
    stream = Terminal(there)
    progress = Progress([(series("EUR/USD", MINUTE), MONDAY, None)], lambda: MONDAY + 3 * DAY, stream)

    progress.tell("complete", 1440)
    progress.tell("partial", 10)

    assert stream.getvalue() == ("\r\x1b[2Kcandles: 1 of 3 tiles in this run, 1,440 bars" if there else "")
    assert progress.line(MONDAY + 3 * DAY).endswith("1,450 bars, 1 asked for again later")


# ----- recorded data


@pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")
def test_recorded_answers_parse_without_loss():
    folder = FIXTURES / "polygon_io_aggs"
    page = read_page(
        parse((folder / "C_EURUSD_1_day_2023-01-01_2023-01-10_asc.json").read_text()), "C:EURUSD"
    )
    tile = Span(point("2023-01-01", "since"), point("2023-01-11", "until"))
    found = checked(page.rows, "EUR/USD", DAILY, tile)
    assert (len(found.bars), found.invalid, found.repeated) == (10, [], 0)
    assert moment(found.bars[0].start) == "2023-01-01T00:00:00Z"

    row = json.loads((folder / "C_EURUSD_one_minute_bar.json").read_text())
    day = Span(point("2025-09-15", "since"), point("2025-09-16", "until"))
    assert read(row, "EUR/USD", MINUTE, day).close == 1.17266


@pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")
@pytest.mark.parametrize(("day", "bars"), [("2012-02-02", 0.99), ("2012-02-03", 0.99), ("2012-02-05", 0.9)])
def test_a_recorded_week_has_nearly_the_expected_bars_and_never_all(day, bars):
    file = FIXTURES / "forex_bars" / "fxcm_GBPUSD_m1_bid_2012-02-02_to_02-07.csv"
    since = point(day, "since")
    tile = Span(since, since + DAY)
    rows = [_row(line) for line in csv.DictReader(file.read_text().splitlines())]
    inside = [row for row in rows if tile.since * 1000 <= row["t"] < tile.until * 1000]

    found = checked(inside, "GBP/USD", MINUTE, tile)

    likely = expected(tile, 60, market("fx", ()))
    assert (found.invalid, found.repeated, found.differing) == ([], 0, 0)
    assert bars * likely <= len(found.bars) < likely
    assert stands(None, len(found.bars), len(found.bars), likely * 0.5, True).state == "complete"


def _row(line: dict[str, str]) -> dict[str, Any]:
    start = datetime.fromisoformat(line["timestamp"]).astimezone(UTC).timestamp()
    prices = {name[0]: float(line[name]) for name in ("open", "high", "low", "close")}
    return {"t": int(start * 1000), **prices, "v": 1}


@pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")
def test_a_recorded_friday_ends_when_new_york_does():
    file = FIXTURES / "forex_bars" / "dukascopy_EURUSD_m1_bid_2026-07-10_friday.json"
    said = json.loads(file.read_text())
    starts, at = [], said["timestamp"] // 1000
    for steps in said["times"]:
        at += steps * said["shift"] // 1000
        starts.append(at)

    likely = expected(Span(starts[0], starts[0] + DAY), 60, market("fx", ()))

    assert (len(starts), likely) == (1258, 1260)
    assert moment(starts[-1]) == "2026-07-10T20:59:00Z"
