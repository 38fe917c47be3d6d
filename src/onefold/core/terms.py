"""Durations as people write them, and the terms on which a key is claimed.

A lease of nothing would free a key at the moment it is claimed, so it cannot be built.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from onefold.core.errors import Misconfigured

Seconds = float
Duration = float | str | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")
_LONGEST = 1000 * 366 * 86400.0


def seconds(value: object, name: str) -> Seconds:
    """Read a duration: a number of seconds, a timedelta, or text like "90s", "15m", "8d"."""
    number = _number(value)
    if number is None or not math.isfinite(number) or not 0 < number <= _LONGEST:
        raise Misconfigured(
            f'{name} is {value!r}: write a positive number of seconds, or text like "90s", "15m", "8d"'
        )
    return number


def zero_or_seconds(value: object, name: str) -> Seconds:
    """Read a duration that may also be 0, for not at all."""
    number = _number(value)
    if number is None or not 0 <= number <= _LONGEST:  # NaN is in no range
        raise Misconfigured(
            f'{name} is {value!r}: write a number of seconds or text like "5s", "15m"; 0 for not at all'
        )
    return number


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str) and (written := _WRITTEN.fullmatch(value.strip())):
        return float(written[1]) * _UNITS[written[2]]
    return None


def forever_or_seconds(value: object, name: str) -> Seconds | None:
    """Read a duration that may also be "forever" (None)."""
    return None if value == "forever" else seconds(value, name)


def epoch(at: datetime, name: str) -> float:
    """Read a point in time; a datetime without a zone names a different moment on every machine."""
    if not isinstance(at, datetime):
        raise Misconfigured(f"{name} is {at!r:.80}: give a datetime with a time zone")
    if at.tzinfo is None or at.utcoffset() is None:
        raise Misconfigured(
            f"{name} is {at.isoformat()}, without a time zone: use datetime.now(UTC) or .replace(tzinfo=…)"
        )
    return at.timestamp()


@dataclass(frozen=True, slots=True, init=False)
class Terms:
    """How long a claim lasts, how long done is remembered, and how often and when to try again."""

    lease: Seconds
    keep: Seconds | None
    attempts: int
    backoff: tuple[Seconds, Seconds]

    def __init__(
        self,
        lease: Duration = 60,
        keep: Duration = "forever",
        attempts: int = 8,
        backoff: tuple[Duration, Duration] = (1, 3600),
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise Misconfigured(f"attempts is {attempts!r}: write a whole number from 1 on")
        try:
            first, longest = backoff
        except (TypeError, ValueError):
            raise Misconfigured(f"backoff is {backoff!r}: write (first, longest), in seconds") from None
        object.__setattr__(self, "lease", seconds(lease, "lease"))
        object.__setattr__(self, "keep", forever_or_seconds(keep, "keep"))
        object.__setattr__(self, "attempts", attempts)
        object.__setattr__(self, "backoff", (seconds(first, "backoff"), seconds(longest, "backoff")))

    def delay(self, attempt: int) -> Seconds:
        """Say how long to wait after this many attempts: doubling, up to the longest."""
        first, longest = self.backoff
        return min(longest, first * 2.0 ** min(max(attempt - 1, 0), 60))

    @property
    def margin(self) -> Seconds:
        """The last part of a lease in which no effect is started any more."""
        return self.lease / 10
