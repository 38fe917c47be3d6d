"""`onefold coverage`: what is in and what is missing, as a picture, as gaps, and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from onefold import Ledger
from onefold.cli.codes import Code
from onefold.cli.coverage import MOST, PICTURE, PLAIN, STATES, picture, shown_share, stretch
from onefold.core.coverage import Span
from onefold.core.entry import Change, Entry
from onefold.core.tiles import Series, noted
from onefold.drive import Ports, run
from onefold.stores.sqlite import SqliteStore
from onefold.worker.coverage import Noted, note
from tests.fast.cli.stage import Cli

pytestmark = pytest.mark.store("sqlite")

SERIES = Series("bars", "EURUSD", 3600)
DAY = 86400


@pytest.fixture
def day(here: Path) -> Path:
    """A day of hours: the first ten are in, one of them empty; the next is partial; the rest is missing."""
    book = Ledger("sqlite:///onefold.db")
    for hour in range(10):
        receipt = noted("empty", 0) if hour == 4 else noted("complete", 60)
        book.claim(SERIES.key(hour * 3600), effect="idempotent").settle(receipt)
    book.close()
    store = SqliteStore("onefold.db")
    body = '{"record":{"id":"x","at":0,"source":"s","body":null},"note":{"state":"partial","rows":30}}'
    store.swap(
        [Change(SERIES.key(10 * 3600), None, Entry("free", token="t", effect="idempotent", body=body))]
    )
    run(note(Noted(SERIES, 0, DAY, 60)), Ports(store))
    store.close()
    return here


def test_a_series_is_told_to_programs_with_its_gaps(day: Path, cli: Cli):
    [told] = cli.lines("coverage")

    assert (told["pipeline"], told["series"], told["step"]) == ("bars", "EURUSD", 3600)
    assert told["tiles"] == {"complete": 9, "empty": 1, "provisional": 0, "partial": 1, "missing": 13}
    assert (told["rows"], told["expected"]) == (570, 1440)
    assert told["gaps"] == [
        {"since": "1970-01-01T10:00:00.000Z", "until": "1970-01-01T11:00:00.000Z", "state": "partial"},
        {"since": "1970-01-01T11:00:00.000Z", "until": "1970-01-02T00:00:00.000Z", "state": "missing"},
    ]


def test_a_series_is_drawn_with_one_sign_per_tile_where_there_is_room(day: Path, cli: Cli):
    result = cli("coverage", "EURUSD")

    assert result.exit_code == Code.FINE
    assert "████·█████▒░░░░░░░░░░░░░  41.7% in, 570 of 1,440 rows" in result.stdout
    assert "1970-01-01 10:00:00Z to 1970-01-01 11:00:00Z  partial, 1 tile" in result.stdout
    assert cli("coverage", "bars/EURUSD").stdout == result.stdout


def test_a_series_that_nobody_filled_fails_and_the_known_ones_are_named(day: Path, cli: Cli):
    result, told = cli("coverage", "GBPUSD"), cli("coverage", "GBPUSD", "--json")

    assert (result.exit_code, told.exit_code) == (Code.FAILED, Code.FAILED)
    assert "there is no series 'GBPUSD'" in result.stderr
    assert "these are known: bars/EURUSD" in result.stderr


@pytest.mark.parametrize(
    ("since", "until", "stored", "rows", "expected"),
    [
        (0, 28, 672, 672, 672),
        (10, 13, 672, 72, 72),
        (0, 3, 672, 72, 72),
        (25, 28, 672, 72, 72),
        (10, 13, 30, 30, 72),
    ],
)
def test_rows_and_their_expected_number_are_clipped_to_what_is_wanted(
    here: Path, cli: Cli, since: int, until: int, stored: int, rows: int, expected: int
):
    series = Series("bars", "EURUSD", 28 * DAY)
    book = Ledger("sqlite:///onefold.db")
    book.claim(series.key(0), effect="idempotent").settle(noted("complete", stored))
    book.close()
    store = SqliteStore("onefold.db")
    run(note(Noted(series, since * DAY, until * DAY, 3600)), Ports(store))
    store.close()

    [told] = cli.lines("coverage")

    assert (told["rows"], told["expected"]) == (rows, expected)
    assert f"100.0% in, {rows:,} of {expected:,} rows" in cli("coverage").stdout


def test_a_gap_does_not_reach_beyond_what_is_wanted(here: Path, cli: Cli):
    store = SqliteStore("onefold.db")
    run(note(Noted(SERIES, 1800, 9000, 60)), Ports(store))
    store.close()

    [told] = cli.lines("coverage")

    assert told["gaps"] == [
        {"since": "1970-01-01T00:30:00.000Z", "until": "1970-01-01T02:30:00.000Z", "state": "missing"}
    ]


def test_refused_rows_are_counted_with_their_reasons_also_where_an_earlier_version_took_the_tile_as_in(
    day: Path, cli: Cli
):
    book = Ledger("sqlite:///onefold.db")
    book.claim(SERIES.key(11 * 3600), effect="idempotent").settle({**noted("complete", 40), "invalid": 20})
    book.close()
    store = SqliteStore("onefold.db")
    note_ = '{"state":"partial","rows":59,"invalid":1,"reasons":["its v is -1, below zero: {}"]}'
    body = f'{{"record":{{"id":"x","at":0,"source":"s","body":null}},"note":{note_}}}'
    store.swap(
        [Change(SERIES.key(12 * 3600), None, Entry("free", token="t", effect="idempotent", body=body))]
    )
    store.close()

    [told] = cli.lines("coverage")
    shown = cli("coverage").stdout

    assert [(one["since"], one["rows"], one["reasons"]) for one in told["refused"]] == [
        ("1970-01-01T11:00:00.000Z", 20, []),
        ("1970-01-01T12:00:00.000Z", 1, ["its v is -1, below zero: {}"]),
    ]
    assert "1970-01-01 11:00:00Z  20 rows refused\n" in shown
    assert "1970-01-01 12:00:00Z  1 row refused\n    its v is -1, below zero: {}" in shown
    assert "onefold list --parked --scope bars.broken" in shown


@pytest.mark.parametrize(
    ("number", "total", "told"), [(0, 3, "0.0"), (1, 3, "33.3"), (4999, 5000, "99.9"), (5000, 5000, "100.0")]
)
def test_a_series_is_not_100_percent_in_unless_every_tile_is(number, total, told):
    assert shown_share(number, total) == told


def test_a_terminal_without_these_signs_gets_plain_ones(day: Path, cli: Cli):
    assert "####.#####+-------------  41.7% in" in cli("coverage", charset="ascii").stdout


def test_only_what_is_asked_for_is_read(day: Path, cli: Cli):
    [told] = cli.lines("coverage", "--since", "1970-01-01T08:00:00Z")

    assert told["tiles"] == {"complete": 2, "empty": 0, "provisional": 0, "partial": 1, "missing": 13}
    assert cli("coverage", "--since", "yesterday").exit_code == Code.USAGE


def test_a_cell_that_stands_for_several_tiles_shows_the_one_that_most_needs_a_look():
    found = ["complete"] * 8 + ["complete", "missing"] + ["partial", "empty"]

    assert picture(found, PICTURE, width=6) == "████░▒"
    assert picture(["complete"], PICTURE) == "█"
    assert set(PICTURE) == set(PLAIN) == set(STATES)


def test_of_a_long_series_only_the_latest_tiles_are_read_unless_a_start_is_named():
    long = Noted(SERIES, 0, None, 60)
    now = 3600.0 * MOST * 3

    assert stretch(long, None, now) == (Span(3600 * MOST * 2, 3600 * MOST * 3), True)
    assert stretch(long, 0, now) == (Span(0, 3600 * MOST * 3), False)


def test_where_no_series_is_known_that_is_said(cli: Cli, book: Ledger):
    book.call(SERIES.key(0), lambda: None)

    assert cli("coverage").exit_code == Code.FINE
    assert "No series is known here" in cli("coverage").stderr
