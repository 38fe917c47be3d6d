"""How a stand-in misbehaves: a seeded choice per request, at rates that are said beforehand.

It only chooses. What a misbehaviour does to a connection is the site's or the socket's to know.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from random import Random
from typing import Literal, get_args

Trick = Literal[
    "cut-before",  # the connection is closed before anything happened
    "cut-after",  # it happened, and the answer is never sent
    "half",  # it happened, and the answer ends in the middle
    "stall",  # the answer comes late
    "error",  # a 500, and nothing happened
    "busy",  # a 429 with Retry-After, and nothing happened
    "stale",  # an answer given before is given again
    "empty",  # a 200 with an empty list
    "garbage",  # a 200 whose body is no JSON
    # On a stream, where a message takes the place of a request, as it does for cut-before, stall and garbage.
    "drop",  # a message is never sent, and nobody is told
    "repeat",  # a message is sent twice
    "swap",  # a message is sent after the next one
    "half-open",  # the line stays up, but nothing is sent or answered any more
]

TRICKS: tuple[Trick, ...] = get_args(Trick)


class Mischief:
    """Draws tricks by their rates; the same seed draws the same tricks. Without rates it draws none."""

    def __init__(self, seed: int = 0, rates: Mapping[Trick, float] | None = None, stall: float = 0.3) -> None:
        self.rates = dict(rates or {})
        self.stall = stall
        self._random = Random(seed)
        self._lock = threading.Lock()
        self.drawn: dict[Trick, int] = dict.fromkeys(TRICKS, 0)

    def draw(self) -> Trick | None:
        """Say what goes wrong with the next request, if anything."""
        with self._lock:
            left = self._random.random()
            for trick, rate in self.rates.items():
                left -= rate
                if left < 0:
                    self.drawn[trick] += 1
                    return trick
        return None

    def stop(self) -> None:
        """Be truthful from now on."""
        self.rates = {}
