"""A client of DynamoDB that answers by script: what a server does that cannot be had here, or not on demand.

It keeps what it was asked, so that rounds can be counted. It knows no conditions: a server does.
"""

from collections.abc import Callable, Sequence
from typing import Any

from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key
from onefold.stores.dynamodb import items
from onefold.stores.dynamodb.errors import NoTable
from onefold.stores.dynamodb.plan import DynamoPlan
from onefold.stores.dynamodb.requests import Outcome, Refusal, Request
from onefold.stores.shells import Blocking

__all__ = ["GONE", "LATE", "NOW", "TABLE", "THROTTLED", "WRONG", "Scripted", "found", "refused", "store"]

TABLE = "ledger"
NOW = 1_700_000_000.5

GONE = NoTable("the table does not exist")
LATE = Unanswered("it was asked and did not answer")
THROTTLED = Unreachable("it is throttled; nothing was written")
WRONG = Misconfigured("it refuses")

Round = Callable[[Sequence[Request]], Sequence[Outcome]] | Sequence[Outcome]


class Scripted:
    """Answers round by round; asked for more rounds than it has, it fails the test."""

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)
        self.asked: list[list[Request]] = []
        self.pauses: list[float] = []

    def now(self) -> float:
        return NOW

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def execute_many(self, requests: Sequence[Request]) -> list[Outcome]:
        self.asked.append(list(requests))
        assert self.rounds, f"a round more than expected: {requests}"
        answer = self.rounds.pop(0)
        outcomes = list(answer(requests) if callable(answer) else answer)
        assert len(outcomes) == len(requests), "the script has another number of answers"
        return outcomes

    def close(self) -> None: ...


def store(*rounds: Round, max_skew: float = 60.0) -> Blocking:
    """Return the store on a scripted client; `store(...).client` has what was asked."""
    return Blocking(DynamoPlan(TABLE, max_skew), Scripted(*rounds))


def found(*stored: tuple[Key, Any], left: Sequence[Key] = ()) -> dict[str, Any]:
    """Answer a look: these items, and those that were not read."""
    unread = {TABLE: {"Keys": [{"id": {"B": key.id}} for key in left]}} if left else {}
    return {
        "Responses": {TABLE: [items.item(key, entry) for key, entry in stored]},
        "UnprocessedKeys": unread,
    }


def refused(key: Key, entry: Any) -> Refusal:
    """Answer a write whose condition did not hold."""
    return Refusal(items.item(key, entry))
