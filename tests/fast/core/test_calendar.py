"""How many bars a stretch should hold: around the clock, and by the week of foreign exchange in New York."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.calendar import always, expected, fx_week, named, open_in
from onefold.core.coverage import Span
from onefold.core.errors import Misconfigured

NEW_YORK = ZoneInfo("America/New_York")
MINUTE, HOUR, DAY = 60, 3600, 86400


def span(since: str, until: str) -> Span:
    return Span.between(
        datetime.fromisoformat(since).replace(tzinfo=UTC), datetime.fromisoformat(until).replace(tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("since", "until", "bars"),
    [
        # An ordinary winter week: five times 24 hours.
        ("2026-01-11T00:00", "2026-01-18T00:00", 5 * 1440),
        # Clocks go forward on Sunday, 8 March 2026, before the market opens: the week stays five days long,
        # but a week of UTC from Monday to Monday holds an hour more of it, because the next opens earlier.
        ("2026-03-08T00:00", "2026-03-15T00:00", 5 * 1440),
        ("2026-03-02T00:00", "2026-03-09T00:00", (4 * 24 + 22 + 3) * 60),
        ("2026-03-09T00:00", "2026-03-16T00:00", (4 * 24 + 21 + 3) * 60),
        # Clocks go back on Sunday, 1 November 2026.
        ("2026-10-26T00:00", "2026-11-02T00:00", (4 * 24 + 21 + 2) * 60),
        ("2026-11-02T00:00", "2026-11-09T00:00", (4 * 24 + 22 + 2) * 60),
        # A Saturday is closed; a Friday ends at 17:00 in New York: 22:00 in winter and 21:00 in summer.
        ("2026-01-17T00:00", "2026-01-18T00:00", 0),
        ("2026-01-16T00:00", "2026-01-17T00:00", 22 * 60),
        ("2026-07-10T00:00", "2026-07-11T00:00", 21 * 60),
        ("2026-01-18T00:00", "2026-01-19T00:00", 2 * 60),
    ],
)
def test_a_week_of_foreign_exchange_minutes_around_a_change_of_daylight_saving(since, until, bars):
    assert expected(span(since, until), MINUTE, fx_week()) == bars


def test_a_holiday_holds_no_bars():
    christmas = span("2025-12-25T08:00", "2025-12-25T22:00")
    day = span("2025-12-25T00:00", "2025-12-26T00:00")

    assert expected(day, MINUTE, fx_week([christmas])) == 10 * 60
    assert open_in(day, fx_week([christmas])) == [
        span("2025-12-25T00:00", "2025-12-25T08:00"),
        span("2025-12-25T22:00", "2025-12-26T00:00"),
    ]


def test_a_market_that_never_closes_holds_every_bar_but_its_holidays():
    day = span("2026-01-17T00:00", "2026-01-18T00:00")

    assert expected(day, MINUTE, always()) == 1440
    assert expected(day, 300, always([span("2026-01-17T12:00", "2026-01-17T13:00")])) == 23 * 12


def test_bars_stand_on_multiples_of_their_length_wherever_a_span_starts():
    assert expected(Span(30, 190), MINUTE, always()) == 3
    assert expected(Span(60, 120), MINUTE, always()) == 1
    assert expected(Span(61, 119), MINUTE, always()) == 0


@given(st.integers(1_500_000_000, 1_900_000_000), st.integers(1, 20 * DAY))
def test_the_week_agrees_with_a_look_at_the_clock_of_new_york(since, length):
    # Looked at hour by hour, on the grid of hours, where every session starts and ends.
    stretch = Span(since, since + length)
    starts = range(-(-stretch.since // HOUR) * HOUR, stretch.until, HOUR)

    assert expected(stretch, HOUR, fx_week()) == sum(map(is_open, starts))


def is_open(moment: int) -> bool:
    # Seven hours forward, and 17:00 is midnight: what is open is then simply Monday to Friday.
    shifted = datetime.fromtimestamp(moment, NEW_YORK).replace(tzinfo=None) + timedelta(hours=7)
    return shifted.weekday() < 5


def test_calendars_have_names_and_bars_have_lengths():
    assert named("fx").name == "fx"
    assert named("24/7").name == "24/7"
    with pytest.raises(Misconfigured, match="names no calendar"):
        named("moon")
    with pytest.raises(Misconfigured, match="must be positive"):
        expected(Span(0, 60), 0, always())
