"""Live settings: put by compare-and-set, seen by running workers within seconds, never half-right."""

from __future__ import annotations

from datetime import date
from typing import Any

import anyio
import pytest

from onefold.core.audit import acts
from onefold.core.documents import load, named, save
from onefold.core.errors import Misconfigured, Unreachable
from onefold.drive import AsyncPorts, Inline, Ports, run
from onefold.stores.memory import MemoryStore
from onefold.worker.settings import Live, checked, get, put, setting_key

NAME = "whales.names"


class Away(Inline):
    """A store that can go away."""

    away = False

    async def get(self, keys: Any) -> Any:
        if self.away:
            raise Unreachable("the store is away")
        return await super().get(keys)


class Stage:
    """A store, and an app's view of its settings under a clock that is moved by hand."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.store = Away(self.memory)
        self.now = 0.0
        self.live = Live(every=3.0, clock=lambda: self.now)

    def put(self, value: Any, expected: int, token: str = "t") -> Any:
        return run(put(NAME, value, "ann", f"{token}{expected}", expected), Ports(self.memory))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_setting_is_put_over_the_one_that_was_seen_and_over_no_other(stage: Stage):
    first = stage.put(["ann"], 0)
    second = stage.put(["ann", "bob"], 1)
    late = stage.put(["carol"], 1, "u")

    assert (first.number, second.number, late) == (1, 2, None)
    stored: Any = run(get(NAME), Ports(stage.memory))
    assert (stored.value, stored.number, stored.by) == (["ann", "bob"], 2, "ann")


def test_putting_a_setting_is_noted_with_who_did_it(stage: Stage):
    stage.put(["ann"], 0)

    stage.put(["late"], 0, "u")

    [act] = run(acts(setting_key(NAME)), Ports(stage.memory))
    assert (act["act"], act["by"], act["over"]) == ("put", "ann", 0)


def test_an_app_sees_a_change_without_a_restart_and_asks_only_every_few_seconds(stage: Stage):
    async def watch() -> list[Any]:
        setting = stage.live.of("whales").setting("names", list[str])
        await stage.live.attend(AsyncPorts(stage.store))
        seen = [await setting.value()]
        stage.put(["ann", "bob"], 1)
        seen.append(await setting.value())
        stage.now = 3.0
        return [*seen, await setting.value()]

    stage.put(["ann"], 0)

    assert anyio.run(watch) == [["ann"], ["ann"], ["ann", "bob"]]


def test_a_fresh_value_is_asked_for_at_once_and_is_never_an_old_one(stage: Stage):
    async def watch() -> list[Any]:
        setting = stage.live.setting(NAME, list[str], ["default"])
        await stage.live.attend(AsyncPorts(stage.store))
        seen: list[Any] = [(await setting.value(), setting.number, setting.written)]
        stage.put(["ann"], 0)
        seen.append((await setting.fresh(), setting.number))
        assert setting.written is not None
        stage.store.away = True
        with pytest.raises(Unreachable):
            await setting.fresh()
        return [*seen, (await setting.value(), setting.number)]

    assert anyio.run(watch) == [(["default"], 0, None), (["ann"], 1), (["ann"], 1)]


@pytest.mark.parametrize("trouble", ["away", "unfit"])
def test_while_the_store_is_away_or_holds_what_does_not_fit_the_last_value_stands(
    stage: Stage, trouble: str, caplog: pytest.LogCaptureFixture
):
    async def watch() -> list[Any]:
        setting = stage.live.setting(NAME, list[str])
        await stage.live.attend(AsyncPorts(stage.store))
        seen = [await setting.value()]
        if trouble == "away":
            stage.store.away = True
        else:
            stage.put({"not": "a list"}, 1)
        stage.now = 10.0
        return [*seen, await setting.value()]

    stage.put(["ann"], 0)

    assert anyio.run(watch) == [["ann"], ["ann"]]
    assert f"{NAME} stays as it was" in caplog.text


def test_a_setting_that_nobody_put_is_its_default_or_an_error_that_names_the_command(stage: Stage):
    async def read(**how: Any) -> Any:
        await stage.live.attend(AsyncPorts(stage.store))
        return await stage.live.setting(NAME, list[str], **how).value()

    assert anyio.run(lambda: read(default=["nobody"])) == ["nobody"]
    with pytest.raises(Misconfigured, match=r"onefold settings put whales\.names FILE"):
        anyio.run(read)


def test_a_first_value_that_does_not_fit_is_never_handed_on(stage: Stage):
    async def read() -> Any:
        await stage.live.attend(AsyncPorts(stage.store))
        return await stage.live.setting(NAME, list[str], ["default"]).value()

    stage.put([1], 0)

    with pytest.raises(Misconfigured, match=r"number 1, put by ann, does not fit: Expected str, got int"):
        anyio.run(read)


def test_a_setting_can_be_read_only_while_its_worker_runs(stage: Stage):
    with pytest.raises(Misconfigured, match="while its worker runs"):
        anyio.run(stage.live.setting(NAME, list[str]).value)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ([1], list[str], "does not fit: Expected str, got int"),
        ("x" * 70_000, None, "too large"),
        ({"limit": float("nan")}, None, "holds what JSON cannot"),
        ({"since": date(2026, 1, 31)}, None, "holds what JSON cannot"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_it_is_put(value: Any, kind: Any, words: str):
    with pytest.raises(Misconfigured, match=words):
        checked(NAME, value, kind)


def test_a_value_that_fits_is_not_refused():
    checked(NAME, ["ann"], list[str])
    checked(NAME, {"anything": 1}, None)


def test_an_app_keeps_a_document_of_its_own_in_the_worker_s_store():
    awaited = Inline(MemoryStore())
    live = Live()
    key = named("counts", "today")

    async def main() -> Any:
        with pytest.raises(Misconfigured, match="while its worker runs"):
            await live.ask(load([key]))
        await live.attend(AsyncPorts(awaited))
        await live.ask(save(key, "t", lambda stands: {"orders": 1}))
        return await live.ask(load([key]))

    [document] = anyio.run(main)

    assert document.value == {"orders": 1}
