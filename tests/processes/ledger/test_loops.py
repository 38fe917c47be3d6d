"""An `AsyncLedger` and its event loops: several, closed ones, forked ones, and none of asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onefold import AsyncLedger, Key, Terms
from onefold.core.entry import Change, Reply
from onefold.core.errors import Misconfigured
from onefold.drive import Inline, OneThread, Threaded
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import stored
from tests.processes.ledger.test_ledger_lives import in_child
from tests.waiting import PATIENCE, until

KEY = Key("loops", 1)


async def five() -> int:
    return 5


class Other:
    """A store of the caller's that might keep something of an event loop, for all that a ledger knows."""

    def __init__(self, store: MemoryStore) -> None:
        self._inline = Inline(store)
        self.closed = 0
        self.get, self.swap, self.scan = self._inline.get, self._inline.swap, self._inline.scan

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def second_loop() -> Any:
    """Another event loop, which runs in a thread and is asked from here."""
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        ready.set()
        await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(PATIENCE)
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loops[0]).result(PATIENCE)
    loops[0].call_soon_threadsafe(ended.set)
    thread.join()


@pytest.mark.parametrize("wrapped", [Inline, Threaded, OneThread])
def test_a_store_of_no_loop_serves_two_running_loops(wrapped, second_loop):
    store = wrapped(MemoryStore())
    ledger = AsyncLedger(store)

    async def main() -> str:
        await ledger.call(KEY, five)
        state = await asyncio.to_thread(lambda: second_loop(ledger.call(KEY, five)).state)
        await ledger.close()
        return str(state)

    assert asyncio.run(main()) == "done"
    second_loop(ledger.close())


def test_a_given_store_on_a_second_loop_is_refused_at_once_and_follows_when_the_first_is_closed(second_loop):
    memory = MemoryStore()
    store = Other(memory)
    ledger = AsyncLedger(store)

    async def main() -> None:
        await ledger.call(KEY, five)
        with pytest.raises(Misconfigured, match="was given a Other, which another event loop uses: give"):
            await asyncio.to_thread(lambda: second_loop(ledger.call(Key("loops", 2), five)))
        await asyncio.to_thread(lambda: second_loop(ledger.close()))  # what another loop uses is left alone

    asyncio.run(main())
    assert (memory.get([Key("loops", 2)])[0].entry, store.closed) == (None, 0)
    assert second_loop(ledger.call(Key("loops", 2), five)).state == "ran"
    second_loop(ledger.close())
    assert store.closed == 1


def test_what_a_closed_loop_left_open_is_closed_from_the_next():
    store = Other(MemoryStore())
    ledger = AsyncLedger(store)
    asyncio.run(ledger.close())
    asyncio.run(ledger.call(KEY, five))
    asyncio.run(ledger.close())

    assert store.closed == 1


def test_a_shared_store_is_closed_by_the_last_loop_that_uses_it(second_loop):
    class Closing(Inline):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    store = Closing(MemoryStore())
    ledger = AsyncLedger(store)

    async def main() -> None:
        await ledger.call(KEY, five)
        await asyncio.to_thread(lambda: second_loop(ledger.call(KEY, five)))
        await ledger.close()
        assert store.closed == 0  # the other loop may have a call under way
        await asyncio.to_thread(lambda: second_loop(ledger.close()))
        assert store.closed == 1
        await ledger.call(KEY, five)
        await ledger.close()

    asyncio.run(main())
    assert store.closed == 2


class Gated(Inline):
    """A store whose first write never returns."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.hang = True

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        if self.hang:
            self.hang = False
            await asyncio.get_running_loop().create_future()
        return await super().swap(changes)


def test_a_loop_that_was_closed_in_the_middle_of_a_call_does_not_stop_the_next():
    store = Gated(MemoryStore())
    ledger = AsyncLedger(store)
    loop = asyncio.new_event_loop()
    left = [loop.create_task(ledger.call(Key("loops", n), five)) for n in (1, 2)]
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

    assert asyncio.run(ledger.call(Key("loops", 3), five)).state == "ran"
    for task in left:  # nobody will ever run them
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    del left, task
    gc.collect()  # what they do in the end harms nobody


def test_a_claim_may_be_settled_on_another_loop_than_it_was_made_on():
    store = MemoryStore()
    ledger = AsyncLedger(Inline(store))

    async def make() -> Any:
        return await ledger.claim(KEY)

    claim = asyncio.run(make())
    asyncio.run(claim.settle("later"))

    assert stored(store, KEY).body == '"later"'


def test_each_loop_keeps_its_own_claims_alive(second_loop):
    store = MemoryStore()
    ledger = AsyncLedger(Inline(store))
    short = Terms(lease=0.15)
    keys = [Key("loops", "here"), Key("loops", "there")]

    async def held(key: Key) -> Any:
        return await ledger.claim(key, terms=short)

    async def main() -> None:
        claims = [await held(keys[0]), await asyncio.to_thread(lambda: second_loop(held(keys[1])))]
        before = [stored(store, key).version for key in keys]
        await until(lambda: all(stored(store, k).version > v for k, v in zip(keys, before, strict=True)))
        await claims[0].settle()
        await claims[1].settle()

    asyncio.run(main())


def test_the_default_store_is_located_once_for_all_loops(tmp_path: Path, monkeypatch, caplog):
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    ledger = AsyncLedger()
    assert asyncio.run(ledger.call(KEY, five)).state == "ran"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert asyncio.run(ledger.call(KEY, five)).state == "done"
    asyncio.run(ledger.close())
    assert len(caplog.records) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("make", [Inline, Other])
def test_an_async_ledger_is_usable_in_a_forked_child_on_the_same_loop_or_another(make: Callable[..., Any]):
    store = MemoryStore()
    ledger = AsyncLedger(make(store))

    async def hold() -> Any:
        return await ledger.claim(KEY, terms=Terms(lease=1000))

    async def work() -> None:
        assert (await ledger.call(Key("loops", 2), five)).state == "ran"
        assert not ledger._homes.here().heart._pulses  # a child must not renew its parent's claims

    with asyncio.Runner() as runner:
        held = runner.run(hold())
        assert in_child(lambda: runner.run(work())) == 0
        assert in_child(lambda: asyncio.run(work())) == 0
        runner.run(held.settle())

    assert stored(store, KEY).state == "done"


def test_without_an_event_loop_of_asyncio_everything_is_refused_before_it_is_claimed():
    store = MemoryStore()
    ledger = AsyncLedger(Inline(store))
    protected: Any = ledger.protect("loops", key=lambda: 1)(five)
    claiming = ledger.claim(KEY)

    for work in (
        protected(),
        ledger.call(KEY, five),
        claiming.__aenter__(),
        ledger.look(KEY),
        ledger.close(),
    ):
        with pytest.raises(Misconfigured, match="works on asyncio only"):
            work.send(None)  # as trio drives a coroutine: no event loop of asyncio runs

    assert store.get([KEY])[0].entry is None
