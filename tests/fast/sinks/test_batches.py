"""Fault 37, a sink takes half of a batch: each item has its own answer, and only what failed is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from onefold.core.entry import Effect
from onefold.core.errors import Refused
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from tests.fast.sinks.stage import PATIENT, records, run_until, settled, states, worker


class Halves:
    """A service that takes batches, keeps a random part of each, and says which."""

    batch = 10

    def __init__(self, effect: Effect, seed: int) -> None:
        self.effect: Effect = effect
        self.arrived: Counter[str] = Counter()
        self.batches: list[int] = []
        self._random = Random(seed)

    async def put(self, work: Sequence[tuple[Any, Any]]) -> Sequence[Any]:
        self.batches.append(len(work))
        return [self._answer(record) for _, record in work]

    def _answer(self, record: Any) -> Any:
        if self._random.random() < 0.5:
            return Refused("not this one")
        self.arrived[record.id] += 1
        return {"taken": record.id}


@pytest.mark.parametrize("effect", ["keyed", "idempotent"])
@pytest.mark.parametrize("seed", range(5))
def test_a_sink_that_takes_half_of_a_batch_gets_only_the_other_half_again(effect, seed):
    memory, sink = MemoryStore(), Halves(effect, seed)
    run_until(worker(records(50), sink, Inline(memory), terms=PATIENT), settled(memory, 50))

    assert states(memory, 50) == {"done": 50}
    assert sink.arrived == Counter(f"r{n}" for n in range(50))
    assert max(sink.batches) == 10
