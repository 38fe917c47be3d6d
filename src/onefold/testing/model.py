"""A store beside a memory store, on one clock, through random reads, writes, scans and moves of the clock.

Every reply must be the same, to the last field and to `idle`; only the order of a scan is a store's own.
The runs are derived from the test itself, so that a failure repeats whenever it is run again, and
Hypothesis prints the shortest way to it. Stores with a clock of their own cannot be compared like this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

from onefold.core.entry import EFFECTS, STATES, Change, Entry, Reply, Seen, State, Why
from onefold.core.errors import Misconfigured
from onefold.core.flow import get, swap
from onefold.core.key import Key
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore
from onefold.testing.contract.stage import Open, Stage, Subject
from onefold.testing.contract.words import in_order, walk
from onefold.testing.contract.writing import TEXTS

try:
    from hypothesis import Phase, settings
    from hypothesis import strategies as some
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
except ImportError as missing:
    raise Misconfigured(
        'the random test of a store needs hypothesis, which is not installed: pip install "onefold[testing]"'
    ) from missing

KEYS = [Key(scope, part) for scope in ("orders", "Orders") for part in ("a", "A", "a ")]
WHYS: tuple[Why, ...] = get_args(Why)
TIMES = (0.0, 0.25, 60.0, 3600.0)


def _various_entries() -> Iterator[Entry]:
    """Make entries in which every field takes several values, each once beside each state."""
    for number, (state, text) in enumerate(product(STATES, TEXTS)):
        yield Entry(
            state,
            why=WHYS[number % 4] if state == "parked" else None,
            token=text,
            version=(0, 7)[number % 2],
            fence=(0, 5)[number % 2],
            effect=EFFECTS[number % 4],
            begun=(None, 1.5)[number % 2],
            lease=TIMES[number % 4],
            written=(0.0, 1.0, 4e9)[number % 3],
            attempt=number,
            not_before=(None, 1.0)[number % 2],
            expires=(None, 1.0)[number % 2],
            fingerprint=(None, text)[number % 2],
            source=text,
            body=(None, "", text)[number % 3],
        )


# Few and coarse choices per step: Hypothesis gives up on histories that need too many.
entries = some.sampled_from([*_various_entries()])
removals = some.sampled_from([*_various_entries(), *[None] * 12])
extras = some.sampled_from([*product((False, True), (None, *TIMES), (None, *TIMES))])


class Plan(NamedTuple):
    """A change before it is known which versions there are."""

    key: Key
    on: Literal["fits", "absent", "stale", "future"]
    entry: Entry | None
    extras: tuple[bool, float | None, float | None]

    def change(self, stored: Entry | None) -> Change:
        """Turn the plan into a change, given what is stored."""
        now = stored.version if stored else None
        other = now or 1_700_000_000_000_000
        expected = {"fits": now, "absent": None, "stale": other - 1, "future": other + 1}[self.on]
        return Change(self.key, expected, self.entry, *self.extras)


plans = some.builds(
    Plan,
    key=some.sampled_from(KEYS),
    on=some.sampled_from(["fits", "fits", "fits", "absent", "stale", "future"]),
    entry=removals,
    extras=extras,
)


class Pair(RuleBasedStateMachine):
    """A store and its model. `open` is set by `compare`."""

    open: Open

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(prefix="onefold-")
        self._stage = Stage(Subject(type(self).open), Path(self._folder.name))
        self._model = MemoryStore(self._stage.clock)

    def teardown(self) -> None:
        self._stage.__exit__()
        self._folder.cleanup()

    @initialize(wanted=some.lists(entries, min_size=4, max_size=5))
    def fill(self, wanted: Sequence[Entry]) -> None:
        changes = in_order(Change(key, None, entry) for key, entry in zip(KEYS, wanted, strict=False))
        self._compare_swap(changes)

    @rule(planned=some.lists(plans, min_size=1, max_size=6, unique_by=lambda plan: plan.key))
    def swap(self, planned: Sequence[Plan]) -> None:
        stored = [seen.entry for seen in self._model.get([plan.key for plan in planned])]
        self._compare_swap(in_order(map(Plan.change, planned, stored)))

    def _compare_swap(self, changes: Sequence[Change]) -> None:
        assert list(self._stage.run(_swap(changes))) == list(self._model.swap(changes))

    @rule(keys=some.lists(some.sampled_from(KEYS), min_size=1, unique=True))
    def get(self, keys: Sequence[Key]) -> None:
        assert list(self._stage.run(_get(keys))) == list(self._model.get(keys))

    @rule(
        scope=some.sampled_from([None, "orders", "Orders", "order"]),
        states=some.just(STATES) | some.lists(some.sampled_from(STATES), min_size=1, unique=True),
        due=some.booleans(),
        limit=some.integers(1, 7),
    )
    def scan(self, scope: str | None, states: Sequence[State], due: bool, limit: int) -> None:
        found = self._stage.run(walk(scope, states, due, limit))
        expected = run(walk(scope, states, due, limit), Ports(self._model, self._stage.clock))

        assert sorted(map(_shown, found)) == sorted(map(_shown, expected))

    @rule(seconds=some.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        self._stage.clock.sleep(seconds)

    @rule(seconds=some.sampled_from((-3600.0, -1.0, 1.0, 3600.0)))
    def jump(self, seconds: float) -> None:
        self._stage.clock.jump(seconds)


async def _swap(changes: Sequence[Change]) -> Sequence[Reply]:
    return await swap(changes)


async def _get(keys: Sequence[Key]) -> Sequence[Seen]:
    return await get(keys)


def _shown(found: tuple[Key, Seen]) -> tuple[Any, ...]:
    key, seen = found
    return key.id, key.scope, repr(seen)


def compare(open: Open, examples: int = 40, steps: int = 30, shrink: bool = True) -> None:
    """Drive a store and a memory store together; raise at the first difference."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    run_state_machine_as_test(
        type("Compared", (Pair,), {"open": staticmethod(open)}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=phases,
        ),
    )
