"""Beside the effects: heartbeats, lost and forgotten claims. Threads and forks: tests/processes/ledger."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from onefold import AsyncLedger, Key, Ledger, Terms, current_claim
from onefold.core.errors import LostClaim
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import Losing, Time, stored
from tests.waiting import until, wait_for

KEY = Key("life", 1)
SHORT = Terms(lease=0.15)


def renewed(store: MemoryStore, version: int) -> Callable[[], bool]:
    return lambda: stored(store, KEY).version > version


def test_heartbeats_keep_a_long_effect_alive():
    clock = Time()
    store = MemoryStore(clock)
    ledger = Ledger(store)
    contender = Ledger(store)

    def effect() -> str:
        for _ in range(6):  # three leases pass, by the clock that a contender goes by
            before = stored(store, KEY).version
            clock.now += SHORT.lease / 2
            wait_for(renewed(store, before))
        return contender.call(KEY, lambda: "twice", effect="idempotent", terms=SHORT).state

    outcome = ledger.call(KEY, effect, effect="idempotent", terms=SHORT)

    assert (outcome.state, outcome.receipt) == ("ran", "busy")


def test_a_heartbeat_survives_a_store_that_loses_replies():
    inner = MemoryStore()
    losing = Losing(inner)
    ledger = Ledger(losing)

    def effect() -> str:
        first = stored(inner, KEY).version
        losing.lose = 2
        wait_for(lambda: stored(inner, KEY).version >= first + 5)
        return "sent"

    assert ledger.call(KEY, effect, terms=Terms(lease=0.6)).state == "ran"


def test_heartbeats_keep_a_long_async_effect_alive():
    clock = Time()
    store = MemoryStore(clock)

    async def main() -> str:
        ledger = AsyncLedger(Inline(store))

        async def effect() -> str:
            for _ in range(6):
                before = stored(store, KEY).version
                clock.now += SHORT.lease / 2
                await until(renewed(store, before))
            return (await ledger.call(KEY, effect, effect="idempotent", terms=SHORT)).state

        outcome = await ledger.call(KEY, effect, effect="idempotent", terms=SHORT)
        return str(outcome.receipt)

    assert asyncio.run(main()) == "busy"


def test_many_claims_share_one_heartbeat():
    store = MemoryStore()
    ledger = Ledger(store)
    swaps: list[int] = []
    ledger.tap = lambda event: swaps.append(len(event.call.args[0])) if event.call.name == "swap" else None

    claims = ledger.claim_many([Key("life", n) for n in range(1, 101)], terms=SHORT)
    before = stored(store, Key("life", 100)).version
    wait_for(lambda: stored(store, Key("life", 100)).version > before)
    ledger.release_many(claims)

    assert swaps[:4] == [100] * 4  # the claim and the first beat, each before and after


def test_an_effect_is_told_that_its_lease_is_gone(tmp_path):
    clock = Time()
    store = MemoryStore(clock)

    def taken_over() -> bool:
        clock.now += 1  # and if a heartbeat comes just now, the other is too early once more
        return Ledger(store).call(KEY, lambda: "theirs", effect="idempotent", terms=SHORT).state == "ran"

    def effect() -> bool:
        claim = current_claim()
        wait_for(taken_over)
        wait_for(lambda: claim.lost)
        return True

    with pytest.raises(LostClaim):
        Ledger(store).call(KEY, effect, effect="idempotent", terms=SHORT)

    assert stored(store, KEY).body == '"theirs"'


def test_a_lost_async_effect_is_cancelled_unless_it_is_one_shot():
    clock = Time()
    store = MemoryStore(clock)
    ended: list[str] = []

    async def lose(key: Key, effect: str, hang: bool) -> None:
        async def work() -> str:
            clock.now += 1
            await AsyncLedger(Inline(store)).call(key, theirs, effect=effect, terms=SHORT)  # type: ignore[arg-type]
            if hang:
                await asyncio.Event().wait()
            claim = current_claim()
            await until(lambda: claim.lost)
            ended.append(f"{effect} ran to its end")
            return "mine"

        await AsyncLedger(Inline(store)).call(key, work, effect=effect, terms=SHORT)  # type: ignore[arg-type]

    async def theirs() -> str:
        return "theirs"

    with pytest.raises(LostClaim):
        asyncio.run(lose(KEY, "idempotent", hang=True))
    asyncio.run(lose(Key("life", 2), "one-shot", hang=False))

    assert ended == ["one-shot ran to its end"]
    assert stored(store, Key("life", 2)).body == '"mine"'


def test_a_forgotten_claim_ends_with_its_lease():
    store = MemoryStore()
    ledger = Ledger(store)

    ledger.claim(KEY, effect="idempotent", terms=SHORT)
    gc.collect()

    wait_for(lambda: ledger.claim(KEY, effect="idempotent", terms=SHORT).won)


@pytest.mark.store("sqlite")
def test_tasks_share_an_async_ledger_and_every_key_runs_once(tmp_path):
    ran: list[int] = []

    async def main() -> None:
        ledger = AsyncLedger(f"sqlite:///{tmp_path}/o.db")

        async def work() -> None:
            for n in range(1, 51):

                async def effect(n: int = n) -> None:
                    ran.append(n)

                await ledger.call(Key("tasks", n), effect, wait=10)

        await asyncio.gather(*(work() for _ in range(8)))
        await ledger.close()

    asyncio.run(main())

    assert sorted(ran) == list(range(1, 51))
