"""When a market is open, and so how many bars a stretch of it should hold.

Two calendars: always open, and the week of foreign exchange, from Sunday to Friday at 17:00 in New York, by
that city's daylight saving, without the holidays it is given. Other rules belong to whoever knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from onefold.core.coverage import Span, merge, subtract
from onefold.core.errors import Misconfigured

SUNDAY = 6


class Calendar(NamedTuple):
    """When a market is open: all the time, or in sessions, and never on holidays."""

    name: str
    sessions: Callable[[Span], Iterable[Span]]
    """Gives whole sessions that may overlap a span."""
    holidays: tuple[Span, ...] = ()


def always(holidays: Iterable[Span] = ()) -> Calendar:
    """Return the calendar of a market that never closes."""
    return Calendar("24/7", lambda span: [span], tuple(holidays))


def fx_week(holidays: Iterable[Span] = ()) -> Calendar:
    """Return the calendar of foreign exchange: Sunday 17:00 to Friday 17:00, New York."""
    return Calendar("fx", _fx_sessions, tuple(holidays))


def named(name: str, holidays: Iterable[Span] = ()) -> Calendar:
    """Return a calendar by its name."""
    known = {"24/7": always, "fx": fx_week}
    if name not in known:
        raise Misconfigured(f"{name!r} names no calendar: {' and '.join(known)} are known")
    return known[name](holidays)


def open_in(span: Span, calendar: Calendar) -> list[Span]:
    """Return the stretches of a span in which the market is open."""
    found: list[Span] = []
    for session in merge(calendar.sessions(span)):
        since, until = max(session.since, span.since), min(session.until, span.until)
        if since < until:
            found += subtract(Span(since, until), calendar.holidays)
    return found


def expected(span: Span, bar: int, calendar: Calendar) -> int:
    """Say how many bars start in a span while the market is open; bars stand on multiples of their length."""
    if bar <= 0:
        raise Misconfigured(f"a bar of {bar} seconds cannot be counted: its length must be positive")
    return sum(_starts(stretch, bar) for stretch in open_in(span, calendar))


def _starts(stretch: Span, bar: int) -> int:
    return -(-stretch.until // bar) - -(-stretch.since // bar)


def _fx_sessions(span: Span) -> Iterator[Span]:
    # A day either way, because a session is found by dates and a span is given in seconds.
    day = datetime.fromtimestamp(span.since, UTC).date() - timedelta(days=8)
    last = datetime.fromtimestamp(span.until, UTC).date() + timedelta(days=1)
    while day <= last:
        if day.weekday() == SUNDAY:
            yield Span(_closing(day), _closing(day + timedelta(days=5)))
        day += timedelta(days=1)


def _closing(day: date) -> int:
    """Return 17:00 in New York on a day, where foreign exchange changes its date."""
    return int(datetime.combine(day, time(17), ZoneInfo("America/New_York")).timestamp())
