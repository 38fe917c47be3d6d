"""How long to wait before something that failed is tried again: doubling, jittered, capped, and forgotten.

Pure: the chance comes in as a number. Whoever tries counts; here it is only said what a count means.
"""

from __future__ import annotations

from typing import NamedTuple

from onefold.core.terms import Seconds

_DOUBLINGS = 60
"""More doublings than any cap needs, and few enough for a float."""


class Backoff(NamedTuple):
    """The first pause, the longest, and how long things must go well for a failure to be the first again."""

    first: Seconds = 0.5
    longest: Seconds = 60.0
    stable: Seconds = 0.0


def pause(backoff: Backoff, failures: int, chance: float) -> Seconds:
    """Say how long to wait after so many failures in a row; `chance` is drawn from 0 to 1.

    Half of a pause is left to chance: clients that lost one server at once must not come back at once.
    """
    whole = min(backoff.longest, backoff.first * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS))
    return whole * (0.5 + 0.5 * chance)


def failures_now(backoff: Backoff, failures: int, well_for: Seconds | None) -> int:
    """Count one more failure; `well_for` is how long things went well before it, None if not at all.

    A connection that opens and is cut at once must not start the count again, or a storm would never calm.
    """
    forgiven = well_for is not None and well_for >= backoff.stable
    return 1 if forgiven else failures + 1
