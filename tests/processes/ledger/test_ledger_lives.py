"""A ledger among threads, which wait in real time, and on both sides of a fork."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from onefold import AsyncLedger, Key, Ledger, Terms
from onefold.drive import Threaded
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from tests.fast.ledger.doors import Time, stored
from tests.fast.ledger.test_life import (
    KEY,
    SHORT,
    renewed,
    # Once more with a thread that beats: in fast tests the loop does.
    test_a_forgotten_claim_ends_with_its_lease,  # noqa: F401
    test_a_heartbeat_survives_a_store_that_loses_replies,  # noqa: F401
    test_an_effect_is_told_that_its_lease_is_gone,  # noqa: F401
)
from tests.waiting import until, wait_for


def test_the_thread_of_a_heart_keeps_a_long_effect_alive():
    clock = Time()
    store = MemoryStore(clock)
    ledger = Ledger(store)
    contender = Ledger(store)

    def effect() -> str:
        for _ in range(3):  # three half leases pass, by the clock that a contender goes by
            before = stored(store, KEY).version
            clock.now += SHORT.lease / 2
            wait_for(renewed(store, before))
        return contender.call(KEY, lambda: "twice", effect="idempotent", terms=SHORT).state

    outcome = ledger.call(KEY, effect, effect="idempotent", terms=SHORT)

    assert (outcome.state, outcome.receipt) == ("ran", "busy")


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
