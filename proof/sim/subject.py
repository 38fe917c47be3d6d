"""One key of a history: the record behind it, everything that was asked, written and done about it.

A subject only remembers. The far side's journal is in here too, because whether an effect happened is
known to nobody else: neither the workers nor the store read it, only probes, operators and checkers do.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from onefold.core.claims import Answer
from onefold.core.entry import Effect, Entry
from onefold.core.key import Key
from onefold.core.terms import Terms

Kind = Literal["claim", "ready", "begin", "renew", "end", "resolve", "retry", "probe", "note", "purge"]
Verdict = Literal["accepted", "repeat", "stale"]

NEVER = float("inf")
KEYS = tuple(Key("sim", f"k{number}") for number in range(8))


class Op:
    """One question about one key: who asked what and when, and what came back. Unanswered stays open."""

    __slots__ = (
        "answer", "asked", "called", "cancelled", "ending", "error", "executed", "kind", "late", "returned",
        "subject", "token", "unsure", "who", "wrote",
    )  # fmt: skip

    def __init__(self, kind: Kind, subject: Subject, token: str, who: str, called: float) -> None:
        self.kind = kind
        self.subject = subject
        self.token = token
        self.who = who
        self.called = called
        self.returned = NEVER
        self.executed = called
        """When the store last did something for it."""
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.ending = ""
        self.asked = ""
        """What the last call on the store was after: a state to write, or "get"."""
        self.wrote = 0
        """How often it wrote."""
        self.late = False
        """Whether a call of its reached the store after it had given it up."""
        self.unsure = False
        """Whether its last call went unanswered."""
        self.cancelled = False

    @property
    def said(self) -> str:
        """What came back, in a word."""
        if self.answer is not None:
            return self.answer.state
        return type(self.error).__name__ if self.error is not None else "open"


class Write(NamedTuple):
    """One change of what the store holds."""

    at: float
    old: Entry | None
    new: Entry | None
    op: Op | None


class Attempt:
    """One run of an effect: under which claim it was started, and what the far side made of it."""

    __slots__ = ("arrived", "fence", "ready", "started", "subject", "token", "verdict")

    def __init__(self, subject: Subject, token: str, fence: int, ready: float, started: float) -> None:
        self.subject = subject
        self.token = token
        self.fence = fence
        self.ready = ready
        """When it was told that it may start; a process may stand still before it does."""
        self.started = started
        self.arrived = NEVER
        self.verdict: Verdict | None = None


class Subject:
    """One key, with its record and its whole history."""

    __slots__ = (
        "accepted", "ahead", "attempts", "barred", "born", "current", "effect", "fenced", "floor", "highest",
        "key", "number", "ops", "remembered", "since", "terms", "tries", "window", "words", "writes",
    )  # fmt: skip

    def __init__(self, number: int, effect: Effect, terms: Terms, born: float) -> None:
        self.number = number
        self.key = KEYS[number]
        self.effect = effect
        self.terms = terms
        self.born = born
        self.window: float | None = None
        self.fenced = False
        self.current: Entry | None = None
        self.since = 0.0
        """True time of the last write."""
        self.ahead = 0.0
        """How far the store's clock had jumped ahead by then, all jumps together."""
        self.floor = 0
        """The highest fence and version ever stored, also before a purge."""
        self.writes: list[Write] = []
        self.ops: list[Op] = []
        self.attempts: list[Attempt] = []
        self.accepted: list[Attempt] = []
        self.remembered = -NEVER
        """When a keyed far side last accepted the key."""
        self.highest = 0
        """The highest fence that a fenced far side has seen."""
        self.barred: set[str] = set()
        """Tokens that a probe made the far side refuse from then on."""
        self.tries = 0
        """How often its effect was started since it was new, or since a person said so."""
        self.words = 0
        """How often a person allowed one more attempt without knowing that the last one cannot happen."""

    def __str__(self) -> str:
        return f"k{self.number}"

    def arrive(self, attempt: Attempt, now: float) -> Verdict:
        """Let an effect reach the far side, which accepts it, knows it already, or refuses a stale one."""
        attempt.arrived = now
        attempt.verdict = self._judge(attempt, now)
        if attempt.verdict == "accepted":
            self.accepted.append(attempt)
            self.remembered = now
        return attempt.verdict

    def _judge(self, attempt: Attempt, now: float) -> Verdict:
        if attempt.token in self.barred:
            return "stale"
        if self.fenced:
            if attempt.fence < self.highest:
                return "stale"
            self.highest = attempt.fence
        if self.effect == "keyed" and now < self.remembered + (self.window or NEVER):
            return "repeat"
        return "accepted"
