"""Leaders who change while copytrade runs, and lists of which one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from onefold.apps.copytrade import LIVE, pipelines
from onefold.apps.copytrade.leaders import Leaders as Followed
from onefold.apps.copytrade.leaders import noted as stored
from onefold.apps.copytrade.trades import Trade
from onefold.core.documents import load, named
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.drive import AsyncPorts, Inline, Ports, arun
from onefold.drive import run as ask
from onefold.runtime import current
from onefold.stores import connect
from onefold.stores.memory import MemoryStore
from onefold.worker.settings import Live, checked, put
from onefold.worlds.leaders import LEADERS
from onefold.worlds.site import Request, Response
from tests.fast.apps.copying import Script, Stage, deed, entry, fill, is_done, kept, settings, stage, worker
from tests.fast.worker.stage import run_until

FIRST, SECOND = LEADERS[:2]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def follow(url: str, leaders: Sequence[str], over: int = 0) -> None:
    """Put the leaders, as an operator does."""
    store = connect(url)
    try:
        assert ask(put("copytrade.leaders", list(leaders), "ann", token_hex(16), over), Ports(store))
    finally:
        store.close()


def noted(url: str) -> set[str]:
    """Name the leaders whom a worker has noted."""
    store = connect(url)
    try:
        [document] = ask(load([named("copytrade", "leaders")]), Ports(store))
    finally:
        store.close()
    return set(document.value["since"]) if document else set()


def is_read(on: Stage, leader: str) -> Callable[[], bool]:
    """Say whether a leader was subscribed to, or their list asked for."""

    def look() -> bool:
        subscribed = [str(line["params"]) for line in on.nodes[0].stream.journal.of("subscribed")]
        asked = [one.query.get("user") for one in on.data.requests if one.path == "/activity"]
        return leader in asked or any(leader[2:] in one for one in subscribed)

    return look


def name(number: int, leader: int = 0) -> str:
    return f"{LEADERS[leader]}/0x{number:064x}/{10**70}/BUY"


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_a_leader_who_is_added_while_it_runs_is_read_from_then_on(file, only):
    early = 30.0
    with stage(clock=lambda: current().time() - early) as on:
        one = worker(settings(on, leaders=[FIRST]), file, only)

        def add() -> None:
            on.leaders.act(deed(1, fill(1)))  # half a minute before
            follow(file, [FIRST, SECOND])

        def trade() -> None:
            nonlocal early
            early = 0.0
            on.leaders.act(deed(2, fill(1)), deed(3, fill(0)))

        run_until(
            one,
            Script(
                (lambda: one.ready, add),
                (lambda: noted(file) == {FIRST, SECOND} and is_read(on, SECOND)(), trade),
                (lambda: on.copied().total() >= 2, lambda: None),
            ),
        )

    assert set(on.copied()) == {name(2, 1), name(3)}


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_a_leader_who_is_removed_while_it_runs_is_copied_no_longer(file, only):
    with stage() as on:
        one = worker(settings(on, leaders=[FIRST, SECOND]), file, only)
        run_until(
            one,
            Script(
                (lambda: one.ready, lambda: on.leaders.act(deed(1, fill(1)))),
                (lambda: on.copied().total() == 1, lambda: follow(file, [FIRST])),
                (lambda: noted(file) == {FIRST}, lambda: on.leaders.act(deed(2, fill(1)), deed(3, fill(0)))),
                (lambda: on.copied().total() == 2, lambda: None),
            ),
        )

    assert set(on.copied()) == {name(1, 1), name(3)}


def test_a_trade_of_a_removed_leader_that_is_under_way_is_not_copied(file):
    with stage() as on:
        on.data.unknown_for[f"0x{0:064x}"] = 10_000  # the market is not known yet, so the trade waits
        one = worker(settings(on, leaders=[FIRST, SECOND]), file, ("chain",))

        def know() -> None:
            on.data.unknown_for.clear()

        run_until(
            one,
            Script(
                (lambda: one.ready, lambda: on.leaders.act(deed(1, fill(1)))),
                (lambda: entry(file, name(1, 1)) is not None, lambda: follow(file, [FIRST])),
                (lambda: noted(file) == {FIRST}, know),
                (lambda: is_done(file, [name(1, 1)]), lambda: None),
            ),
        )

    assert not on.copied()
    assert "not one of the leaders" in kept(file, name(1, 1))


def test_a_leader_who_is_added_is_noted_once_and_one_who_comes_back_begins_anew():
    async def seen() -> list[dict[str, float]]:
        store, now = Inline(MemoryStore()), [100.0]
        ports = AsyncPorts(store)
        found: list[dict[str, float]] = []
        for at, leaders in ((100.0, "a"), (200.0, "ab"), (300.0, "ab"), (400.0, "b"), (500.0, "ab")):
            now[0] = at
            live = Live("copytrade.")
            await live.attend(ports)
            given = ["0x" + one * 40 for one in leaders]
            found.append(
                {
                    who[2]: since
                    for who, since in (await Followed(given, live, lambda: now[0]).since()).items()
                }
            )
        return found

    assert anyio.run(seen) == [
        {"a": 0.0},
        {"a": 0.0, "b": 200.0},
        {"a": 0.0, "b": 200.0},
        {"b": 200.0},
        {"a": 500.0, "b": 200.0},
    ]


async def live_of(store: Inline) -> Live:
    """Return live settings of a store; by their clock no time passes, so nothing is asked for again."""
    live = Live("copytrade.", clock=lambda: 0.0)
    await live.attend(AsyncPorts(store))
    return live


async def put_in(store: MemoryStore, over: int, *leaders: str) -> None:
    flow = put("copytrade.leaders", list(leaders), "ann", token_hex(16), over)
    assert await arun(flow, AsyncPorts(Inline(store)))


def test_a_list_of_a_few_seconds_ago_skips_no_trade_of_a_leader_who_came_back():
    async def skipped(sink: Any, leader: str) -> bool:
        body = Trade(
            leader, "0x1", str(10**70), "BUY", Decimal(100), Decimal(50), int(current().time())
        ).body()
        claim = SimpleNamespace(key=Key("copytrade", leader), request=None)
        return "skip" in await sink.prepare(claim, Record("x", body, 0))

    async def seen(on: Stage) -> list[bool]:
        store = MemoryStore()
        await put_in(store, 0, FIRST)
        sink = pipelines(settings(on), await live_of(Inline(store))).sink
        before = await skipped(sink, SECOND)
        await put_in(store, 1, FIRST, SECOND)
        return [before, await skipped(sink, SECOND)]

    with stage() as on:
        assert anyio.run(seen, on) == [True, False]


class Interrupted(Inline):
    """A store in which something happens just before the leaders' document is read for the first time."""

    def __init__(self, store: MemoryStore, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(store)
        self._happens: Callable[[], Awaitable[object]] | None = happens

    async def get(self, keys: Sequence[Key]) -> Sequence[Any]:
        if self._happens and named("copytrade", "leaders") in keys:
            happens, self._happens = self._happens, None
            await happens()
        return await super().get(keys)


def test_a_worker_with_an_older_list_changes_nothing_that_was_noted_by_a_later_one():
    async def seen() -> list[Any]:
        now = [100.0]
        store = MemoryStore(lambda: now[0])
        await put_in(store, 0, FIRST)
        await Followed([FIRST], await live_of(Inline(store))).since()

        async def overtaken() -> Any:
            now[0] = 200.0
            await put_in(store, 1, FIRST, SECOND)
            return await Followed([FIRST], await live_of(Inline(store))).since()

        slow = Followed([FIRST], await live_of(Interrupted(store, overtaken)))
        found: list[Any] = [await slow.since()]
        now[0] = 300.0
        return [*found, await slow.since(), await slow.fresh()]

    assert anyio.run(seen) == [{FIRST: 0.0, SECOND: 200.0}] * 3


def test_what_an_earlier_version_noted_of_leaders_is_read():
    assert stored(None) is None
    assert stored({FIRST: 3, SECOND: 0.0}) == (0, {FIRST: 3.0, SECOND: 0.0})
    assert stored({"number": 2, "since": {FIRST: 3}}) == (2, {FIRST: 3.0})


@pytest.mark.parametrize(
    "value",
    [[], ["0x1"], [FIRST, "somebody"], FIRST, {FIRST: True}],
    ids=["none", "short", "word", "text", "map"],
)
def test_leaders_that_are_no_wallets_are_refused_when_they_are_put(value):
    with pytest.raises(Misconfigured, match="does not fit"):
        checked("copytrade.leaders", value, LIVE["leaders"])
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, LIVE["leaders"])


def test_a_list_that_fails_holds_no_other_up_and_is_named(file, caplog):
    with stage() as on:
        shown = on.data.routes["GET", "/activity"]

        def failing(request: Request) -> Response:
            return Response({}, 500) if request.query.get("user") == SECOND else shown(request)

        on.data.routes["GET", "/activity"] = failing
        one = worker(settings(on, leaders=[FIRST, SECOND]), file, ("activity",))
        failed: list[str] = []

        def through() -> bool:
            errors = one.tallies["copytrade"].errors.values()
            failed.extend(said for said in errors if SECOND in said)
            if failed and not on.wanted():
                on.leaders.act(deed(1))
            return bool(on.wanted()) and on.is_through()

        run_until(one, through)

    assert on.copied() == on.wanted()
    assert "keeps failing" in failed[0]
