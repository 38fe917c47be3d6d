"""Pipelines on virtual time: an hour costs little, equal seeds are equal, and no error is hidden."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from onefold import Ledger, Pipeline, Record
from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.ports import Source
from onefold.core.record import Page
from onefold.runtime import Runtime, current, http, now
from onefold.runtime.http import Ask
from onefold.sinks.function import Acts, Function
from onefold.sinks.http import Http
from onefold.sources.function import Function as Reads
from onefold.sources.poll import Poll
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite.file import SqliteStore
from onefold.testing import Scripted, Simulation
from onefold.testing.runtime import EPOCH
from tests.fast.testing.serving import certified, trusting

RECORD = Record("A-1", {"cents": 4900}, 1)
SHOP = "shop.example.com"


def pipeline(act: Acts, source: Source | None = None) -> Pipeline:
    source = source or Scripted([RECORD])
    return Pipeline("orders", sources={"feed": source}, key=lambda one: one.id, sink=Function(act))


def feed() -> Poll:
    return Poll(f"http://{SHOP}/orders", id="id", at="at", every="30s", lag="10m")


async def orders(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Show an order for every minute of the last quarter of an hour, the newest first."""
    await reader.readuntil(b"\r\n\r\n")
    minute = int(now() - EPOCH) // 60
    rows = [{"id": str(one), "at": EPOCH + 60 * one} for one in range(minute, minute - 15, -1)]
    respond(writer, json.dumps(rows).encode())


def respond(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def entries(simulation: Simulation, *states: str) -> list[str]:
    found = Ledger(simulation.store).entries("orders", *states)  # type: ignore[arg-type]
    return [entry.label for _, entry in found]


def acted(seed: int, minutes: int) -> list[tuple[float, str]]:
    """Poll for some minutes; say when which order was acted upon."""
    done: list[tuple[float, str]] = []
    with Simulation(seed) as simulation:
        simulation.serve(orders, SHOP)
        simulation.start(pipeline(lambda record: done.append((current().time(), record.id)), feed()))
        simulation.run(60 * minutes)
        assert now() == EPOCH + 60 * minutes
    return done


def test_an_hour_of_polling_acts_once_on_every_record():
    done = acted(seed=1, minutes=60)

    assert [int(name) for _, name in done] == list(range(-14, 60))


def test_a_stand_in_with_a_certificate_is_reached_by_https(monkeypatch):
    monkeypatch.setattr(http, "_trust", trusting)  # a process reads SSL_CERT_FILE only once
    done: list[str] = []

    with Simulation() as simulation:
        simulation.serve(orders, "localhost", 443, ssl=certified("local"))
        source = Poll("https://localhost/orders", id="id", at="at", every="30s", lag="10m")
        simulation.start(pipeline(lambda record: done.append(record.id), source))
        simulation.run("1m")

    assert [int(name) for name in done] == list(range(-14, 1))


def test_equal_seeds_give_equal_histories_and_other_seeds_other_ones():
    assert acted(seed=2, minutes=10) == acted(seed=2, minutes=10)
    assert acted(seed=2, minutes=10) != acted(seed=3, minutes=10)


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_proxies_of_this_machine_are_not_asked(monkeypatch, variable):
    monkeypatch.setenv(variable, "http://proxy.example.com:3128")

    assert len(acted(seed=1, minutes=5)) == 14 + 5


def test_the_time_of_day_is_virtual_inside_of_the_block_and_real_after_it():
    with Simulation() as simulation:
        simulation.run(5)
        assert now() == EPOCH + 5

    assert type(current()) is Runtime


def test_entries_can_be_listed_after_the_end_and_the_end_changes_nothing():
    async def act(record: Record) -> None:
        await current().sleep(3600)

    with Simulation() as simulation:
        simulation.start(pipeline(act))
        simulation.run(10)
        assert entries(simulation, "held") == ["A-1"]

    assert entries(simulation, "held") == ["A-1"]
    assert entries(simulation, "parked") == []


def test_a_store_of_the_callers_own_is_used_and_stays_open(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    with Simulation(store=store) as simulation:
        worker = simulation.start(pipeline(lambda record: None))
        simulation.run(10)
        simulation.stop(worker)
        assert entries(simulation, "done") == ["A-1"]
    store.close()


# ----- how workers end


def test_a_stopped_worker_ends_what_it_does_and_its_exit_code_is_returned():
    done: list[str] = []

    async def act(record: Record) -> None:
        await current().sleep(20)
        done.append(record.id)

    with Simulation() as simulation:
        worker = simulation.start(pipeline(act))
        simulation.run(10)
        assert done == []
        assert simulation.stop(worker) == 0
        assert done == ["A-1"]
        assert simulation.stop(worker) == 0
        assert now() == EPOCH + 20


def test_a_worker_that_leaves_something_in_doubt_says_so_by_its_exit_code():
    def act(record: Record) -> None:
        raise OSError("no answer")

    with Simulation() as simulation:
        worker = simulation.start(pipeline(act), once=True)
        simulation.run(10)
        assert simulation.stop(worker) == 3


def test_a_killed_worker_leaves_its_claim_behind_and_another_one_finds_it():
    begun: list[float] = []

    async def act(record: Record) -> None:
        begun.append(current().monotonic())
        await current().sleep(5)

    with Simulation() as simulation:
        worker = simulation.start(pipeline(act))
        simulation.run(2)
        simulation.kill(worker)
        simulation.run(10)
        assert entries(simulation, "held") == ["A-1"]
        simulation.start(pipeline(act))
        simulation.run(300)
        assert entries(simulation, "parked") == ["A-1"]

    assert len(begun) == 1


@pytest.mark.parametrize("moment", [0.001, 0.0015, 0.002, 0.003, 0.0045, 0.006])
def test_nothing_of_a_killed_worker_reaches_the_store(moment):
    written: list[float] = []

    class Store(MemoryStore):
        def swap(self, changes):
            written.append(now())
            return super().swap(changes)

    with Simulation(store=Store()) as simulation:
        simulation.serve(orders, SHOP)
        worker = simulation.start(pipeline(lambda record: None, feed()))
        simulation.run(moment)
        simulation.kill(worker)
        before = len(written)
        simulation.run("1h")
        assert len(written) == before


def test_a_killed_worker_hears_no_answer_and_does_not_act_on_the_error():
    heard: list[object] = []

    async def act(record: Record) -> None:
        try:
            heard.append(await current().http(Ask("POST", f"http://{SHOP}/", timeout=600)))
        except Exception as error:
            heard.append(error)

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await current().sleep(60)

    with Simulation() as simulation:
        simulation.serve(silence, SHOP)
        worker = simulation.start(pipeline(act))
        simulation.run(10)
        simulation.kill(worker)
        simulation.run(300)

    assert heard == []


def test_the_clean_up_of_a_killed_worker_reaches_no_service():
    async def act(record: Record) -> None:
        try:
            await current().sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                begun.append("clean-up")
                _, writer = await asyncio.open_connection(SHOP, 80)
                writer.write(b"take it back")

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.read(100))

    begun: list[str] = []
    arrived: list[bytes] = []
    with Simulation() as simulation:
        simulation.serve(listen, SHOP)
        worker = simulation.start(pipeline(act))
        simulation.run(10)
        simulation.kill(worker)
        simulation.run(300)

    assert begun == ["clean-up"]
    assert arrived == []


def test_a_stand_in_has_the_runtime_of_the_simulation_and_not_of_the_worker_that_connects():
    async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(current())
        await orders(reader, writer)

    seen: list[Runtime] = []
    with Simulation() as simulation:
        around = current()
        simulation.serve(show, SHOP)
        simulation.start(pipeline(lambda record: None, feed()))
        simulation.run(10)

    assert seen == [around]


def test_a_worker_is_killed_once_and_only_by_the_simulation_that_started_it():
    with Simulation() as simulation:
        worker = simulation.start(pipeline(lambda record: None))
        simulation.kill(worker)
        with pytest.raises(ValueError, match="worker 1 was killed already"):
            simulation.kill(worker)
        with pytest.raises(ValueError, match="worker 1 was killed already"):
            simulation.stop(worker)


# ----- services that misbehave


@pytest.mark.parametrize("fault", ["cut", "stall", "refuse", "black_hole"])
def test_a_fault_delays_effects_and_loses_and_repeats_none(fault):
    done: list[str] = []
    with Simulation(seed=4) as simulation:
        simulation.serve(orders, SHOP)
        simulation.start(pipeline(lambda record: done.append(record.id), feed()))
        simulation.run("10m")
        before = len(done)
        if fault == "stall":
            simulation.network.stall(300, SHOP)
        else:
            getattr(simulation.network, fault)(SHOP)
        simulation.run("4m")
        assert fault == "cut" or len(done) == before
        simulation.network.heal()
        simulation.run("10m")

    assert len(done) == len(set(done)) == 14 + 24


def test_effects_over_http_reach_the_stand_in():
    paid: list[object] = []

    async def bank(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        paid.append(json.loads(await reader.readexactly(size)))
        respond(writer, b"{}")

    payments = Pipeline(
        "payments",
        sources={"feed": Scripted([RECORD])},
        key=lambda one: one.id,
        sink=Http("http://bank.example.com/payments", window="24h"),
    )
    with Simulation() as simulation:
        simulation.serve(bank, "bank.example.com")
        simulation.start(payments)
        simulation.run(60)

    assert paid == [{"cents": 4900}]


# ----- errors


class Breaks:
    """A source that breaks its worker after five seconds."""

    reach = None
    repeats = True
    lag = 0.0

    async def read(self, cursor: Cursor) -> AsyncIterator:
        for seconds in (5, 0):
            await current().sleep(seconds)
            if not seconds:
                raise Boom("in the source")
            yield Page(())

    async def tell(self, fates: object) -> None:
        pass


class Boom(BaseException):
    """No worker catches it."""


def test_an_error_of_a_worker_leaves_the_call_that_lets_time_pass():
    with Simulation() as simulation:
        simulation.start(pipeline(lambda record: None, Breaks()))
        simulation.run(4)
        with pytest.raises(BaseExceptionGroup) as raised:
            simulation.run(4)
        assert raised.group_contains(Boom, match="in the source")
        assert now() == EPOCH + 5
        simulation.run(4)  # it was told once


def breaks_at_the_end(last: Callable[[], object] = list) -> None:
    """Run a simulation with a stand-in that fails when the end of the block closes its connections."""

    async def unclean(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(10_000)
        finally:
            raise KeyError("clean-up")

    with Simulation() as simulation:
        simulation.serve(unclean, SHOP)
        simulation.start(pipeline(lambda record: None, feed()))
        simulation.run(5)
        last()


def test_an_error_at_the_very_end_leaves_the_block():
    with pytest.raises(KeyError, match="clean-up"):
        breaks_at_the_end()


def test_an_error_of_the_test_itself_is_not_replaced_by_one_at_the_end():
    def fail() -> None:
        raise AssertionError("by the test")

    with pytest.raises(AssertionError, match="by the test"):
        breaks_at_the_end(fail)


def test_an_error_of_a_stand_in_leaves_the_call_that_lets_time_pass():
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise KeyError("orders")

    with Simulation() as simulation:
        simulation.serve(broken, SHOP)
        simulation.start(pipeline(lambda record: None, feed()))
        with pytest.raises(KeyError, match="orders"):
            simulation.run(60)


def test_a_client_that_is_gone_is_no_error_of_a_stand_in():
    gone: list[str] = []

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(10_000)
        except (ConnectionError, EOFError) as error:
            gone.append(type(error).__name__)
            raise

    with Simulation() as simulation:
        simulation.serve(waiting, SHOP)
        worker = simulation.start(pipeline(lambda record: None, feed()))
        simulation.run(5)
        simulation.kill(worker)
        simulation.run(5)

    assert len(gone) == 1


def test_an_effect_that_blocks_for_some_time_is_refused():
    def act(record: Record) -> None:
        current().wait(5)

    with Simulation() as simulation:
        simulation.start(pipeline(act))
        simulation.run(10)
        [(_, entry)] = Ledger(simulation.store).entries("orders", "parked")

    assert "a virtual clock stands still" in str(entry.body)


# ----- how it must not be used


def test_a_simulation_inside_of_a_running_loop_is_refused():
    async def made_inside() -> None:
        Simulation()

    async def entered_inside(simulation: Simulation) -> None:
        simulation.__enter__()

    with pytest.raises(RuntimeError, match=r"use it in a plain function \(def test_"):
        asyncio.run(made_inside())
    with pytest.raises(RuntimeError, match=r"use it in a plain function \(def test_"):
        asyncio.run(entered_inside(Simulation()))


def test_time_cannot_be_passed_by_what_runs_in_the_simulation():
    async def act(record: Record) -> None:
        simulation.run(5)

    with Simulation() as simulation:
        simulation.start(pipeline(act))
        simulation.run(10)
        [(_, entry)] = Ledger(simulation.store).entries("orders", "parked")

    assert "another one is running here" in str(entry.body)


def test_a_simulation_runs_only_inside_of_its_block():
    simulation = Simulation()
    with pytest.raises(RuntimeError, match="inside of its block"):
        simulation.run(5)
    with simulation:
        simulation.run(5)
    with pytest.raises(RuntimeError, match="inside of its block"):
        simulation.start(pipeline(lambda record: None))


def test_a_source_of_another_simulation_is_refused_because_it_remembers():
    one = pipeline(lambda record: None, feed())
    with Simulation() as simulation:
        simulation.serve(orders, SHOP)
        simulation.start(one)
        simulation.start(one)  # in the same one it may go on
    del simulation

    with Simulation() as another:
        with pytest.raises(Misconfigured, match=r"source feed of pipeline orders .* importlib\.reload"):
            another.start(one)
        another.start(pipeline(lambda record: None))


def test_a_source_that_cannot_be_watched_is_read_without_the_check():
    class Small:
        __slots__ = ()
        reach = None
        repeats = True
        lag = 0.0
        finite = True

        async def read(self, cursor):
            yield Page([RECORD])

        async def tell(self, fates):
            pass

    source, done = Small(), []
    for _ in range(2):
        with Simulation() as simulation:
            simulation.start(pipeline(lambda record: done.append(record.id), source))
            simulation.run(5)

    assert done == ["A-1", "A-1"]


def test_a_function_source_runs_on_virtual_time():
    async def minutes(cursor: Cursor) -> AsyncIterator[Record]:
        while True:
            await current().sleep(60)
            yield Record(f"{current().time():.0f}", {}, current().time())

    done: list[str] = []
    with Simulation() as simulation:
        simulation.start(pipeline(lambda record: done.append(record.id), Reads(minutes)))
        simulation.run("1h")

    assert len(done) == 60
