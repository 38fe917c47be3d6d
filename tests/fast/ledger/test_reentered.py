"""A protected call inside of its own effect: it says so, immediately, and is not fooled by other claims."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import sqlite3
import threading
from typing import Any

import pytest

from onefold import AsyncLedger, Busy, Key, Ledger, Terms
from onefold.core.errors import Reentered
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import AsyncInstant, Instant, Time, stored

KEY = Key("inside", 1)
WORDS = "inside/1 is held by the effect that makes this call, which would wait for itself: give"


def waiting_ledger(store: Any) -> tuple[Ledger, Instant]:
    """Return a ledger whose clock shows how long it waited."""
    ledger, clock = Ledger(store), Instant()
    ledger.clock = clock
    return ledger, clock


def test_a_protected_call_inside_of_itself_is_told_so_without_waiting():
    store = MemoryStore()
    ledger, clock = waiting_ledger(store)

    @ledger.protect("inside", key=lambda: 1, wait="5m")
    def effect() -> str:
        return effect()

    with pytest.raises(Reentered, match=WORDS) as told:
        effect()

    assert isinstance(told.value, Busy)
    assert clock.now == 0.0
    assert stored(store, KEY).why == "in-doubt"


def test_an_async_protected_call_inside_of_itself_is_told_so_in_tasks_too():
    async def main() -> None:
        ledger = AsyncLedger("memory:")
        ledger.clock = clock = AsyncInstant()

        @ledger.protect("inside", key=lambda: 1, wait="5m")
        async def effect() -> str:
            return await asyncio.create_task(effect())

        with pytest.raises(Reentered, match=WORDS):
            await effect()
        assert clock.now == 0.0

    asyncio.run(main())


def test_call_and_claim_inside_of_their_own_effect_are_busy_without_waiting():
    ledger, clock = waiting_ledger(MemoryStore())

    def effect() -> list[Any]:
        outcome = ledger.call(KEY, lambda: "twice", wait=300)
        return [outcome.state, outcome.own, ledger.claim(KEY, wait=300).state]

    assert ledger.call(KEY, effect).receipt == ["busy", True, "busy"]
    assert clock.now == 0.0


def test_another_ledger_on_the_same_store_is_found_out_and_one_on_another_store_is_not():
    store = MemoryStore()

    def effect() -> list[Any]:
        same = Ledger(store).call(KEY, lambda: "twice", wait=300)
        other = Ledger(MemoryStore()).call(KEY, lambda: "elsewhere", wait=300)
        return [same.own, other.state]

    assert Ledger(store).call(KEY, effect).receipt == [True, "ran"]


def test_another_key_inside_runs_and_what_it_does_inside_the_outer_key_is_told():
    ledger, _ = waiting_ledger(MemoryStore())

    def inner() -> bool:
        return ledger.call(KEY, lambda: "twice", wait=300).own

    assert ledger.call(KEY, lambda: ledger.call(Key("inside", 2), inner).receipt).receipt is True


def test_a_claim_that_was_ended_by_hand_inside_its_block_is_not_held_any_more():
    ledger, _ = waiting_ledger(MemoryStore())

    with ledger.claim(KEY) as claim:
        claim.settle("by hand")
        assert ledger.call(KEY, lambda: "twice", wait=300).receipt == "by hand"


def test_a_context_that_outlived_the_effect_waits_for_another_holder_as_ever():
    store = MemoryStore()
    ledger, clock = waiting_ledger(store)
    kept: list[contextvars.Context] = []
    ledger.call(
        KEY, lambda: kept.append(contextvars.copy_context()), effect="idempotent", terms=Terms(keep=1)
    )
    held = Ledger(store).claim(Key("inside", 2))

    outcome = kept[0].run(lambda: ledger.call(Key("inside", 2), lambda: 5, wait=3))

    assert (outcome.state, outcome.own) == ("busy", False)
    assert clock.now >= 3
    held.release()


def test_an_effect_that_lost_its_claim_waits_for_the_one_who_took_over():
    time = Time()
    store = MemoryStore(time)
    ledger, clock = waiting_ledger(store)
    short = Terms(lease=1000)
    others: list[Any] = []

    def effect() -> list[Any]:
        time.now += 1001
        thread = threading.Thread(  # a thread starts with an empty context: this is somebody else
            target=lambda: others.append(Ledger(store).claim(KEY, effect="idempotent", terms=short))
        )
        thread.start()
        thread.join()
        outcome = ledger.call(KEY, lambda: "twice", effect="idempotent", terms=short, wait=3)
        others[0].release()
        return [others[0].state, outcome.state, outcome.own, clock.now >= 3]

    with ledger.claim(KEY, effect="idempotent", terms=short) as claim:
        assert effect() == ["won", "busy", False, True]
        claim.finished = True  # it is lost: there is nothing to write


def test_an_async_effect_that_lost_its_claim_waits_too():
    time = Time()
    store = MemoryStore(time)
    terms = Terms(lease=1000)

    async def main() -> list[Any]:
        ledger, other = AsyncLedger(Inline(store)), AsyncLedger(Inline(store))
        ledger.clock = clock = AsyncInstant()

        async def twice() -> str:
            return "twice"

        async def theirs() -> Any:
            return await other.claim(KEY, effect="idempotent", terms=terms)

        async with ledger.claim(KEY, effect="idempotent", terms=terms) as claim:
            time.now += 1001
            taken = await asyncio.create_task(theirs(), context=contextvars.Context())
            outcome = await ledger.call(KEY, twice, effect="idempotent", terms=terms, wait=3)
            claim.finished = True
        await taken.release()
        return [taken.state, outcome.state, outcome.own, clock.now >= 3]

    assert asyncio.run(main()) == ["won", "busy", False, True]


def test_a_joined_call_inside_of_itself_is_told_so():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")
    ledger = Ledger.on(connection)

    @ledger.protect("inside", key=lambda: 1)
    def effect() -> str:
        assert ledger.claim(KEY).state == "busy"
        return effect()

    with pytest.raises(Reentered, match=WORDS):
        effect()
    connection.close()


def test_the_error_survives_pickling():
    again = pickle.loads(pickle.dumps(Reentered(KEY, 1.5)))

    assert (type(again), again.wait, again.ran) == (Reentered, 1.5, "no")
