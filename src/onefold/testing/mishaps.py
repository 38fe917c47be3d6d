"""What the proxy can do to an exchange, as values, chosen by hand or drawn from a seed. They do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

Side = Literal["request", "reply"]


@dataclass(frozen=True, slots=True)
class Swallow:
    """The request is delivered and answered; the reply is dropped and the client reset."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The request is not delivered, and the client reset."""


@dataclass(frozen=True, slots=True)
class Reset:
    """So many bytes of the request, or of the reply, still pass; then the client is reset.

    Where there are fewer, all pass and nothing happens.
    """

    after: int
    side: Side = "reply"


@dataclass(frozen=True, slots=True)
class Delay:
    """The request, or the reply, passes late: after so many seconds, or when the proxy is told to release.

    A delayed request is delivered even if its client gave up meanwhile.
    """

    seconds: float
    side: Side = "request"


@dataclass(frozen=True, slots=True)
class Silence:
    """From this request on nothing passes; the client hears nothing until the proxy is healed or closed."""


Mishap = Swallow | Drop | Reset | Delay | Silence | None


def at_random(seed: int, rate: float = 0.2, longest: float = 0.05, most: int = 200) -> Iterator[Mishap]:
    """Draw mishaps for ever, the same for the same seed, for a share of all exchanges.

    Delays are at most `longest` seconds, resets come after at most `most` bytes. Silence is not drawn: a
    client without a time limit would wait for ever.
    """
    drawn = Random(seed)
    while True:
        side: Side = drawn.choice(("request", "reply"))
        # All are made before one is chosen, so that each step draws equally often.
        mishaps = (
            Swallow(),
            Drop(),
            Reset(drawn.randint(0, most), side),
            Delay(drawn.uniform(0, longest), side),
        )
        chosen = drawn.choice(mishaps)
        yield chosen if drawn.random() < rate else None


@dataclass(slots=True)
class Exchange:
    """What became of one request and its reply, in bytes."""

    connection: int
    """Connections are counted from 1, in the order in which they were accepted."""
    mishap: Mishap = None
    sent: int = 0
    """By the client."""
    delivered: int = 0
    """To the server."""
    answered: int = 0
    """By the server."""
    heard: int = 0
    """By the client."""
