"""What must be kept alive, and when: the bookkeeping of heartbeats, without the beating.

A pulse is one claim beside its running effect. Renewals are due after a third of the lease; one that
was not answered is asked again soon. Nothing here waits or asks a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from onefold.core.claims import Answer, Hold
from onefold.core.terms import Terms

SLACK = 0.25
"""The part of its interval by which a beat may come early, so that many leave in one batch."""


class Pulse(Struct, eq=False, gc=False):
    """A claim beside its effect: what is known of its lease, and whether it was lost.

    The garbage collector does not track it, so the code that sets `tell` clears it when the effect has ended:
    a callback usually leads back to the claim.
    """

    hold: Hold
    terms: Terms
    next: float
    lost: bool = False
    tell: Callable[[], object] | None = None
    """Called once when the lease is gone; never for a one-shot effect, which runs to its end."""

    @classmethod
    def of(cls, hold: Hold, terms: Terms) -> Pulse:
        """Begin to keep a claim alive."""
        return cls(hold, terms, hold.since + terms.lease / 3)

    def hear(self, answer: Answer, now: float) -> None:
        """Take in what came of a renewal."""
        hold, lease = self.hold, self.terms.lease
        match answer.state:
            case "won" if answer.entry:
                self.hold = Hold(hold.key, hold.token, answer.entry, answer.since)
                self.next = answer.since + lease / 3
            case "unknown":
                self.hold = replace(hold, unsure=True)
                self.miss(now)
            case "parked" if hold.entry.effect == "one-shot":
                self.next = float("inf")  # it runs to its end and may still be settled
            case _:
                self._lose()

    def miss(self, now: float) -> None:
        """Take in that a renewal failed: try again soon, and say so when the lease is over."""
        self.next = now + min(1.0, self.terms.lease / 10)
        if self.gone(now):
            self._lose()

    def gone(self, now: float) -> bool:
        """Say whether the lease can no longer be relied upon."""
        return self.lost or now >= self.hold.since + self.terms.lease

    def _lose(self) -> None:
        self.lost = True
        self.next = float("inf")
        if self.tell is not None and self.hold.entry.effect != "one-shot":
            self.tell()


def soonest(pulses: Iterable[Pulse]) -> float:
    """Say when the next beat is due; never, if nothing is held."""
    times = [pulse.next for pulse in pulses]
    return min(times) if times else float("inf")


def due(pulses: Iterable[Pulse], now: float) -> list[Pulse]:
    """Pick what is to be renewed now, and what would be due so soon that it may as well leave with it.

    A key stands once in a beat: who took over from itself has two pulses on it, and the older one waits.
    """
    found = {p.hold.key.id: p for p in pulses if p.next - SLACK * p.terms.lease / 3 <= now}
    return list(found.values())
