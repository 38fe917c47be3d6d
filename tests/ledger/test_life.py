"""Beside the effects: heartbeats, threads, forks, forgotten claims. Real time, short leases, no sleeps."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from onefold import AsyncLedger, Key, Ledger, Terms, current_claim
from onefold.core.errors import LostClaim
from onefold.drive import Inline, Threaded
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from tests.ledger.doors import Losing, Time, stored
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


def test_heartbeats_do_not_wait_for_the_threads_that_effects_use_up():
    clock = Time()
    store = MemoryStore(clock)
    gate = threading.Event()

    async def main() -> str:
        ledger = AsyncLedger(Threaded(store))

        async def effect() -> str:
            limiter = anyio.to_thread.current_default_thread_limiter()
            async with anyio.create_task_group() as group:
                for _ in range(int(limiter.total_tokens)):
                    group.start_soon(anyio.to_thread.run_sync, gate.wait, 60)
                await until(lambda: limiter.available_tokens == 0)
                before = stored(store, KEY).version
                await until(renewed(store, before))
                gate.set()
            return "alive"

        return (await ledger.call(KEY, effect, terms=SHORT)).state

    assert asyncio.run(main()) == "ran"


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


def test_a_forgotten_claim_ends_with_its_lease():
    store = MemoryStore()
    ledger = Ledger(store)

    ledger.claim(KEY, effect="idempotent", terms=SHORT)
    gc.collect()

    wait_for(lambda: ledger.claim(KEY, effect="idempotent", terms=SHORT).won)


@pytest.mark.store("sqlite")
def test_threads_share_a_ledger_and_every_key_runs_once(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/o.db")
    ran: list[int] = []

    def work() -> None:
        for n in range(1, 101):
            ledger.call(Key("threads", n), lambda n=n: ran.append(n), wait=10)  # type: ignore[misc]

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ran) == list(range(1, 101))


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


def in_child(work: Callable[[], None]) -> int:
    """Fork, run, and return the child's exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.store("sqlite")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_ledger_is_usable_on_both_sides_of_a_fork(tmp_path: Path):
    ledger = Ledger(f"sqlite:///{tmp_path}/o.db")
    ledger.call(Key("fork", "before"), lambda: os.getpid())

    def child() -> None:
        assert ledger.call(Key("fork", "before"), lambda: 1).state == "done"
        assert ledger.call(Key("fork", "child"), lambda: "c").state == "ran"
        held = ledger.claim(Key("fork", "held"), terms=SHORT)
        version = held.entry.version if held.entry else 0
        wait_for(lambda: (ledger.look(Key("fork", "held")) or held.entry).version > version)  # type: ignore[union-attr]
        held.settle()

    assert in_child(child) == 0
    assert ledger.call(Key("fork", "child"), lambda: "p").receipt == "c"
    assert ledger.call(Key("fork", "parent"), lambda: "p").state == "ran"


@pytest.mark.store("sqlite")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_does_not_keep_its_parents_claims_alive(tmp_path: Path):
    clock = Time()
    store = SqliteStore(tmp_path / "o.db", clock=clock)
    ledger = Ledger(store)
    held = ledger.claim(KEY, terms=Terms(lease=1000))
    before = stored(store, KEY)

    def child() -> None:
        other = ledger.claim(Key("life", 2), terms=SHORT)
        version = other.entry.version if other.entry else 0
        wait_for(lambda: stored(store, Key("life", 2)).version > version + 3)

    assert in_child(child) == 0
    assert stored(store, KEY) == before
    held.release()
