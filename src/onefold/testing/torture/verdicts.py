"""What a ledger told its caller, held against what the server has; pure.

*Unknown* is always a right thing to say, and nothing else may be said instead of it. Everything that is
certain is read from the entry: whoever was told something that the entry does not bear out was misled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from onefold.core.entry import Entry

Deed = Literal[
    "claim", "claim of another's", "claim of what is done", "renew", "late renew",
    "settle", "late settle", "release", "batch claim", "batch settle",
]  # fmt: skip
"""What is asked while the cable is cut; late is what another has taken over."""

DEEDS: tuple[Deed, ...] = get_args(Deed)

Told = Literal[
    "won", "busy", "done", "parked", "mismatch", "renewed", "settled", "released", "lost", "unknown"
]

RECEIPT = '"sent"'


class Asked(NamedTuple):
    """One question, what was told, and what the server has."""

    deed: Deed
    mishaps: str
    told: Told
    token: str
    """The asker's; empty if it never learnt one."""
    before: int
    """The version that stood when it was asked, as far as the asker knew; 0 for none."""
    entry: Entry | None

    def __str__(self) -> str:
        stands = f"{self.entry.state} by {self.entry.token:.8}" if self.entry else "nothing"
        return (
            f"{self.deed} under {self.mishaps}: told {self.told} ({self.token:.8}), the server has {stands}"
        )


def borne_out(asked: Asked) -> bool:
    """Say whether what was told is what the server has."""
    entry = asked.entry
    if asked.told == "unknown":
        return True
    if entry is None:
        return False
    mine = entry.token == asked.token
    match asked.told:
        case "won":
            return mine and entry.state == "held"
        case "renewed":
            return mine and entry.state == "held" and entry.version > asked.before
        case "settled":
            return mine and entry.state == "done" and entry.body == RECEIPT
        case "released":
            return mine and entry.state == "free"
        case "busy":
            return not mine and entry.state == "held"
        case "lost":
            return not mine
        case "done" | "parked":
            return not mine and entry.state == asked.told
        case _:
            return False


class Losses(NamedTuple):
    """What came of a run."""

    cut: int
    """Questions under which the cable was really cut."""
    asked: Sequence[Asked]
    """Every answer to them; a batch has several."""

    @property
    def misclassified(self) -> list[Asked]:
        return [asked for asked in self.asked if not borne_out(asked)]

    @property
    def told(self) -> Counter[str]:
        return Counter(asked.told for asked in self.asked)

    def by_deed(self) -> dict[str, Counter[str]]:
        """Count what was told, for each deed."""
        return {deed: Counter(one.told for one in self.asked if one.deed == deed) for deed in DEEDS}

    def __str__(self) -> str:
        told = self.told
        certain = ", ".join(f"{word} {times}" for word, times in sorted(told.items()) if word != "unknown")
        return (
            f"{self.cut} cut, misclassified {len(self.misclassified)}, unknown {told['unknown']}, {certain}"
        )
