"""What Mnemosyne's own integration tests ask of `protect`, and what its text gets wrong.

Several nodes with one processor id: every ledger here is one of them. Time is the stores' clock, and is moved
by hand. Herds of callers are tasks of one event loop; races of threads for a store are in its contract.
Mnemosyne's own stores, DynamoDB and Cassandra, are tested in tests/servers/apps.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import pytest

from onefold import AsyncLedger, Busy, Key, Ledger, Parked, Refused, Terms
from onefold.core.claims import Bid
from onefold.core.entry import Effect
from onefold.core.errors import LostClaim, Unreachable
from onefold.core.ports import Store
from onefold.core.protocol import claim
from onefold.drive import Ports, Threaded, run
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from onefold.testing.clock import FakeClock

LEASE = 60.0
SKEW = 60.0
"""How far apart clocks may be, by default, where a store has none of its own."""
OVER = LEASE + SKEW + 1
"""Seconds after which a claim that nobody renewed is over on every store."""
CALLERS = 100
NODES = 4

Opens = Callable[..., Store]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.store("memory")),
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
    ]
)
def opens(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Opens:
    """Give what opens the store once more, as another node would, perhaps with a clock of its own."""
    if request.param == "memory":
        store = MemoryStore(clock)
        return lambda own=clock: store
    return lambda own=clock: SqliteStore(tmp_path / "o.db", clock=own)


@pytest.fixture
def nodes(opens: Opens) -> Iterator[list[Ledger]]:
    made = [Ledger(opens()) for _ in range(NODES)]
    for one in made:
        # A server that has just started is slow at first; nobody wants to know how it bears a herd then.
        one.call(Key("warm", "up"), lambda: None)
    yield made
    for one in made:
        one.close()


class Sending:
    """An effect that counts how often it ran, and how many of it at a time."""

    def __init__(self, receipt: Any = "sent", trouble: Callable[[int], None] = lambda number: None) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self._receipt = receipt
        self._trouble = trouble

    def __call__(self, processor: str, id: str) -> Any:
        with self._counted(processor, id) as number:
            self._trouble(number)
            return self._receipt

    async def slowly(self, processor: str, id: str) -> Any:
        """Take a moment, in which others may begin."""
        with self._counted(processor, id) as number:
            await anyio.sleep(0.01)
            self._trouble(number)
            return self._receipt

    @contextmanager
    def _counted(self, processor: str, id: str) -> Iterator[int]:
        self.runs[processor, id] += 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield self.runs.total()
        finally:
            self._at_once -= 1


def protected(ledger: Ledger, sending: Sending, **how: Any) -> Callable[[str, str], Any]:
    @ledger.protect("messages", key=lambda processor, id: (processor, id), **{**HOW, **how})
    def send(processor: str, id: str) -> Any:
        return sending(processor, id)

    return send


def awaited(ledger: AsyncLedger, sending: Sending, **how: Any) -> Callable[[str, str], Awaitable[Any]]:
    @ledger.protect("messages", key=lambda processor, id: (processor, id), **{**HOW, **how})
    async def send(processor: str, id: str) -> Any:
        return await sending.slowly(processor, id)

    return send


HOW: dict[str, Any] = {"effect": "idempotent", "terms": Terms(lease=LEASE, backoff=(0.01, 0.02))}


def herd(opens: Opens, sending: Sending, pause: Callable[[], object] | None = None, **how: Any) -> list[Any]:
    """Let a hundred callers on all nodes ask for the same signal; with a pause, they ask until it is sent."""

    async def ask(send: Callable[[str, str], Awaitable[Any]]) -> Any:
        again = (Unreachable,) if pause is None else (Unreachable, Busy, Refused)
        for _ in range(10 if pause is None else 1000):
            # A herd may be too much for a small server: nothing ran, ask again.
            with suppress(*again):
                return await send("p", "s")
            if pause:
                pause()
            await anyio.sleep(0.01)
        return "never answered"

    async def main() -> list[Any]:
        nodes = [AsyncLedger(Threaded(opens())) for _ in range(NODES)]
        sends = cycle([awaited(node, sending, **how) for node in nodes])
        try:
            return await asyncio.gather(*(ask(next(sends)) for _ in range(CALLERS)))
        finally:
            for node in nodes:
                await node.close()

    return anyio.run(main)


def abandoned(opens: Opens, effect: Effect = "idempotent") -> Key:
    """Claim a signal as a node does that dies at once: nobody renews it."""
    key = Key("messages", "p", "s")
    with closing(opens()) as store:
        [answer] = run(claim([Bid(key, "dead-node", Terms(lease=LEASE), effect)]), Ports(store))
    assert answer.state == "won"
    return key


# ----- what its integration tests ask for


def test_a_hundred_parallel_callers_run_it_once_and_all_get_its_receipt(opens):
    sending = Sending("receipt 1")

    assert herd(opens, sending, wait=60) == ["receipt 1"] * CALLERS
    assert sending.runs == {("p", "s"): 1}


def test_a_hundred_callers_take_over_a_stale_one_once(opens, clock):
    abandoned(opens)
    clock.sleep(OVER)
    sending = Sending()

    assert herd(opens, sending, wait=60) == ["sent"] * CALLERS
    assert sending.runs == {("p", "s"): 1}


@pytest.mark.parametrize("nothing", [None, [], {}, "", 0, False])
def test_an_effect_that_returns_nothing_counts_as_completed(nodes, nothing):
    sending = Sending(nothing)
    for node in nodes:
        protected(node, sending)("p", "s")

    assert sending.runs == {("p", "s"): 1}


def test_only_one_runs_at_a_time_though_attempts_fail(opens, clock):
    def refuse(number: int) -> None:
        if number < 4:
            raise Refused("not yet")

    sending = Sending(trouble=refuse)
    # Whoever hears Busy moves the clock: while a sending takes its moment, a minute is over.
    terms = Terms(lease="1d", backoff=(0.01, 0.02))

    assert herd(opens, sending, lambda: clock.sleep(0.02), terms=terms) == ["sent"] * CALLERS
    assert sending.most_at_once == 1
    assert sending.runs.total() == 4


def test_after_its_time_to_be_remembered_a_signal_runs_again(nodes, clock):
    sending = Sending()
    send = protected(nodes[0], sending, terms=Terms(lease=LEASE, keep=3600))
    send("p", "s")
    clock.sleep(3599)
    send("p", "s")
    assert sending.runs.total() == 1

    clock.sleep(1 + SKEW)
    send("p", "s")
    assert sending.runs.total() == 2


def test_whoever_waits_too_long_for_another_hears_busy_and_writes_nothing(nodes, opens):
    key = abandoned(opens)
    before = nodes[0].look(key)
    sending = Sending()

    with pytest.raises(Busy):
        protected(nodes[1], sending, wait=0.05)("p", "s")

    assert nodes[0].look(key) == before
    assert sending.runs.total() == 0


def test_processors_are_separate_and_so_are_ids_that_look_alike(nodes):
    sending = Sending()
    signals = [("p", "s"), ("q", "s"), ("p", "s2"), ("p/s", "2"), ("p", "s/2")]
    for node in nodes:
        for processor, name in signals:
            protected(node, sending)(processor, name)

    assert sending.runs == dict.fromkeys(signals, 1)


# ----- what the text gets wrong


def test_refused_attempts_leave_what_was_completed_as_it_is(nodes, clock):
    sending = Sending()
    protected(nodes[0], sending)("p", "s")
    before = nodes[0].look(Key("messages", "p", "s"))
    for node in nodes * 3:
        clock.sleep(LEASE)
        protected(node, sending)("p", "s")

    assert nodes[0].look(Key("messages", "p", "s")) == before
    assert sending.runs.total() == 1


def test_impatient_callers_do_not_prolong_the_lease_of_a_dead_node(nodes, opens, clock):
    key = abandoned(opens)
    before = nodes[0].look(key)
    sending = Sending()
    send = protected(nodes[0], sending)
    for _ in range(11):
        clock.sleep(LEASE / 12)
        with pytest.raises(Busy):
            send("p", "s")
    assert nodes[0].look(key) == before

    clock.sleep(OVER - 11 * LEASE / 12)
    assert send("p", "s") == "sent"


def test_completed_and_in_progress_are_two_answers(nodes, opens):
    abandoned(opens)
    claimed = nodes[0].claim(Key("messages", "p", "s"), effect="idempotent")
    protected(nodes[0], Sending())("p", "other")
    done = nodes[1].claim(Key("messages", "p", "other"))

    assert (claimed.state, done.state) == ("busy", "done")


def test_a_slow_node_cannot_complete_what_another_took_over(nodes, clock):
    slow = nodes[0].claim(Key("messages", "p", "s"), effect="idempotent", terms=Terms(lease=LEASE))
    clock.sleep(OVER)
    assert protected(nodes[1], Sending("theirs"))("p", "s") == "theirs"

    with pytest.raises(LostClaim):
        slow.settle("mine")
    assert nodes[2].claim(Key("messages", "p", "s")).receipt == "theirs"


def test_an_effect_that_is_refused_does_not_wait_out_its_lease(nodes, clock):
    def refuse(number: int) -> None:
        if number == 1:
            raise Refused("not yet")

    sending = Sending(trouble=refuse)
    with pytest.raises(Refused):
        protected(nodes[0], sending, effect="one-shot")("p", "s")
    clock.sleep(1)

    assert protected(nodes[1], sending, effect="one-shot")("p", "s") == "sent"


def test_a_one_shot_sending_of_a_dead_node_is_not_repeated_but_waits_for_a_decision(nodes, opens, clock):
    key = abandoned(opens, "one-shot")
    clock.sleep(OVER)
    sending = Sending()
    send = protected(nodes[0], sending, effect="one-shot")

    with pytest.raises(Parked, match="in-doubt"):
        send("p", "s")
    assert sending.runs.total() == 0

    nodes[1].resolve(key, happened=False, by="ann")
    assert send("p", "s") == "sent"


@pytest.mark.parametrize("ahead", [-SKEW, SKEW])
def test_a_node_whose_clock_is_wrong_takes_nothing_from_a_living_one(opens, clock, ahead):
    living = abandoned(opens)
    wrong = FakeClock(clock() + (ahead if has_no_clock(opens) else 0.0))
    node = Ledger(opens(wrong))
    sending = Sending()
    wrong.sleep(LEASE - 1)
    try:
        with pytest.raises(Busy):
            protected(node, sending)("p", "s")
        entry = node.look(living)
    finally:
        node.close()

    assert entry is not None
    assert entry.token == "dead-node"


def has_no_clock(opens: Opens) -> bool:
    """Say whether a store goes by the clocks of its workers, and declares how wrong they may be."""
    with closing(opens()) as store:
        [seen] = store.get([Key("messages", "p", "s")])
    return seen.skew > 0
