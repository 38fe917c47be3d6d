"""What may go wrong in one history, and how often: drawn anew for each, so that every mix comes up.

Most histories turn up one or two kinds of fault and some none at all; a fault that is everywhere hides
the others. Times are in leases, because a second means nothing to a protocol. Nothing here acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from onefold.core.terms import Terms

STREAMS = 8
"""How many streams of lots one seed has: adding a draw to one does not shift the others."""

LEASES = (2.0, 6.0, 20.0)
PATIENCE = (0.0, 0.0, 1.0, 5.0)
"""Seconds: whoever waits looks twice a second, whatever the lease."""
ATTEMPTS = (1, 2, 8, 8)
KEEPS = (0.0, 0.0, 1.2, 3.0)
EAGERNESS = (0.1, 0.2, 0.35, 0.6)


@dataclass(slots=True)
class Knobs:
    """The faults of one history. A share is a chance per call, per step or per effect.

    `ahead` is how far the wall clocks of workers are ahead: records seem older than they are. With a `skew`
    the store has no clock: whoever writes stamps by its own, and clocks are so far apart. `impatient`
    workers cancel an effect when its lease is gone; the others let it run to its end. In a `crowded` history
    records come together, and if one worker is `alone` it gets most of them.
    """

    lease: float
    horizon: float
    workers: int
    subjects: int
    latency: float
    timeout: float
    # per call on the store
    lost_request: float
    lost_reply: float
    late: float
    failed: float
    broken: float
    partial: float
    slow: float
    # per step of a process
    death: float
    stall: float
    cancel: float
    # per effect
    refuse: float
    raise_before: float
    raise_after: float
    linger: float
    set_aside: float
    # how many in all
    blackouts: int
    jumps: int
    operators: int
    purges: int
    patience: float
    crowded: bool
    alone: bool
    keyed: bool
    impatient: bool
    ahead: float
    skew: float
    batches: float
    begins: float
    probe: str


def stream(seed: int, number: int) -> Random:
    """Give one of the streams of lots of a seed."""
    return Random(seed * STREAMS + number)


THEMES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    (),
    ("slow", "raise_after", "keyed"),
    ("failed", "broken", "cancel", "crowd"),
    ("stall", "linger", "crowd"),
    ("lost_reply", "death"),
    ("blackouts", "late"),
)
"""Faults that are worse together: now and then such a set is turned up on purpose."""


class Lots:
    """Draws the knobs of one history: each fault is turned up by its own lot, or by the theme."""

    def __init__(self, dice: Random) -> None:
        self.chance = dice.random
        self.pick = dice.choice
        self.eager = dice.choice(EAGERNESS) if dice.random() > 0.06 else 0.0
        self.theme = dice.choice(THEMES) if self.eager else ()

    def share(self, name: str, most: float) -> float:
        """Draw how often a fault strikes; mostly never."""
        up = self.chance() < self.eager or name in self.theme
        return (0.2 + 0.8 * self.chance()) * most if up else 0.0

    def number(self, name: str, most: int) -> int:
        """Draw how many times something happens; mostly not at all."""
        up = self.chance() < self.eager or name in self.theme
        return 1 + int(self.chance() * most) if up else 0


def drawn(dice: Random) -> Knobs:
    """Draw the faults of a history."""
    lots = Lots(dice)
    chance, pick, share, number = lots.chance, lots.pick, lots.share, lots.number
    lease = pick(LEASES)
    crowd = "crowd" in lots.theme
    return Knobs(
        lease=lease,
        horizon=lease * (2.0 + 4.0 * chance()),
        workers=pick((2, 2, 2, 3)),
        subjects=pick((1, 1, 2, 3)),
        latency=lease * pick((0.001, 0.01, 0.05)),
        timeout=lease * pick((0.2, 0.5, 2.0)),
        lost_request=share("lost_request", 0.5),
        lost_reply=share("lost_reply", 0.5),
        late=share("late", 0.4),
        failed=share("failed", 0.3),
        broken=share("broken", 0.3),
        partial=share("partial", 0.6),
        slow=share("slow", 0.5),
        death=share("death", 0.1),
        stall=share("stall", 0.1),
        cancel=share("cancel", 0.15),
        refuse=share("refuse", 0.7),
        raise_before=share("raise_before", 0.5),
        raise_after=share("raise_after", 0.5),
        linger=share("linger", 0.8),
        set_aside=share("set_aside", 0.2),
        blackouts=number("blackouts", 2),
        jumps=number("jumps", 2),
        operators=number("operators", 2),
        purges=number("purges", 3),
        patience=pick(PATIENCE),
        crowded=crowd or chance() < 0.5,
        alone=crowd or chance() < 0.2,
        keyed="keyed" in lots.theme,
        impatient=chance() < 0.5,
        ahead=lease * share("ahead", 2.0),
        skew=lease * pick((0.0, 0.0, 0.0, 0.3, 1.0)),
        batches=pick((0.0, 0.0, 0.0, 0.7)),
        begins=pick((1.0, 1.0, 0.5, 0.0)),
        probe=pick(("none", "none", "truthful", "fencing")),
    )


@cache
def terms(lease: float, keep: float, attempts: int) -> Terms:
    """Give terms with a back-off that fits the lease; keep counts in leases, none is for ever."""
    return Terms(lease, keep * lease or "forever", attempts, (lease * 0.1, lease))
