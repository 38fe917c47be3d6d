"""The doors themselves: protect in both colours, receipts by annotation, the running claim, lists, people."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onefold import AsyncLedger, Busy, Happened, Key, Ledger, Parked, Refused, current_claim
from onefold.core.errors import Misconfigured, NoReceipt
from onefold.core.operate import page, retry
from onefold.drive import Inline, Ports, run
from onefold.ledger import AsyncClaim, Claim
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import Instant, stored


@dataclass
class Receipt:
    id: str
    at: datetime


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("blocking", "awaited"), [(Ledger, AsyncLedger), (Claim, AsyncClaim)])
def test_both_doors_have_the_same_names_and_arguments(blocking, awaited):
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(blocking) == names(awaited)
    for name in names(blocking):
        if callable(getattr(blocking, name)):
            assert shape(getattr(blocking, name)) == shape(getattr(awaited, name)), name


def test_a_protected_function_runs_once_per_key():
    ran = []
    ledger = Ledger("memory:")

    @ledger.protect("charges", key=lambda order, cents: order)
    def charge(order: str, cents: int) -> str:
        ran.append(order)
        return f"receipt of {order}"

    assert charge("A-17", 4900) == charge("A-17", cents=4900) == "receipt of A-17"
    assert charge("A-18", 100) == "receipt of A-18"
    assert ran == ["A-17", "A-18"]
    assert charge.__name__ == "charge"


def test_a_protected_async_function_runs_once_per_key():
    ran = []

    async def main() -> list[str]:
        ledger = AsyncLedger("memory:")

        @ledger.protect("charges", key=lambda order: order)
        async def charge(order: str) -> str:
            ran.append(order)
            return f"receipt of {order}"

        return [await charge("A-17"), await charge("A-17")]

    assert asyncio.run(main()) == ["receipt of A-17"] * 2
    assert ran == ["A-17"]


def test_keys_are_made_from_defaults_too_and_may_have_several_parts():
    ledger = Ledger("memory:")

    @ledger.protect("bars", key=lambda pair, minute, frame: (pair, minute, frame))
    def bar(pair: str, minute: int, frame: str = "1m") -> str:
        return frame

    bar("EURUSD", 5)

    assert ledger.look(Key("bars", "EURUSD", 5, "1m")) is not None


def test_receipts_come_back_as_the_return_annotation():
    ledger = Ledger("memory:")

    @ledger.protect("typed", key=lambda: 1)
    def order() -> Receipt:
        return Receipt("A", datetime(2026, 1, 1, tzinfo=UTC))

    assert order() == order() == Receipt("A", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_receipt_that_does_not_fit_the_annotation_any_more_is_said_so():
    store = MemoryStore()
    Ledger(store).call(Key("typed", 1), lambda: "text")

    @Ledger(store).protect("typed", key=lambda: 1)
    def order() -> Receipt:
        raise AssertionError("ran again")

    with pytest.raises(NoReceipt, match="does not fit the return type"):
        order()


def test_an_annotation_that_json_cannot_be_read_as_is_said_so():
    ledger = Ledger("memory:")

    def unreadable() -> int | Key:
        return 1

    with pytest.warns(RuntimeWarning, match="cannot be read back as the return type"):
        ledger.call(Key("unreadable", 1), unreadable)
    with pytest.raises(NoReceipt, match="could not be stored"):
        ledger.call(Key("unreadable", 1), unreadable)


def test_an_annotation_that_cannot_be_found_is_no_reason_to_fail():
    ledger = Ledger("memory:")

    def odd() -> NotThere:  # type: ignore[name-defined]  # noqa: F821
        return 5

    protected = ledger.protect("odd", key=lambda: 1)(odd)

    assert protected() == protected() == 5


def test_protect_raises_busy_and_parked():
    store = MemoryStore()
    ledger = Ledger(store)

    @ledger.protect("p", key=lambda n: n)
    def effect(n: int) -> None:
        raise ValueError("who knows")

    holder = ledger.claim(Key("p", 1))
    with pytest.raises(Busy) as busy:
        effect(1)
    with pytest.raises(ValueError, match="who knows"):
        effect(2)
    with pytest.raises(Parked, match="in-doubt"):
        effect(2)

    assert 0 < busy.value.wait <= 60
    holder.release()


@pytest.mark.parametrize(("wait", "seconds"), [("5s", 5), (timedelta(minutes=1), 60), (0.5, 0.5), ("0s", 0)])
def test_wait_is_written_like_every_other_duration(wait, seconds):
    store = MemoryStore()
    held = Ledger(store).claim(Key("p", 1))
    ledger = Ledger(store)
    ledger.clock = clock = Instant()

    assert ledger.call(Key("p", 1), lambda: 5, wait=wait).state == "busy"
    assert clock.now == pytest.approx(seconds, abs=0.1)
    held.release()


def test_a_protected_async_function_is_one_for_type_checkers_too():
    ledger = AsyncLedger("memory:")

    @ledger.protect("charges", key=lambda order: order)
    async def charge(order: str) -> str:
        return f"receipt of {order}"

    async def main() -> str:
        task: asyncio.Task[str] = asyncio.create_task(charge("A-17"))  # mypy checks this file
        return await task

    made: Coroutine[Any, Any, str] = charge("A-17")
    assert asyncio.run(made) == asyncio.run(main()) == "receipt of A-17"


def test_probe_and_content_of_a_protected_function_get_its_arguments():
    ledger = Ledger("memory:")
    asked = []

    def found(order: str, cents: int) -> Happened:
        asked.append((order, cents))
        return Happened("found")

    @ledger.protect("p", key=lambda order, cents: order, content=lambda order, cents: cents, probe=found)
    def charge(order: str, cents: int) -> str:
        raise ValueError("timeout")

    with pytest.raises(ValueError, match="timeout"):
        charge("A", 5)

    assert charge("A", 5) == "found"
    assert asked == [("A", 5)]


def test_an_async_probe_is_awaited():
    async def main() -> Any:
        ledger = AsyncLedger("memory:")

        async def probe() -> Happened:
            return Happened("found")

        async def fails() -> str:
            raise ValueError("timeout")

        with pytest.raises(ValueError, match="timeout"):
            await ledger.call(Key("p", 1), fails)
        return await ledger.call(Key("p", 1), fails, probe=probe)

    assert asyncio.run(main()).receipt == "found"


def test_the_other_colour_is_refused_at_decoration():
    async def awaited() -> None: ...

    def blocking() -> None: ...

    def generator():
        yield

    async def async_generator():
        yield

    with pytest.raises(TypeError, match="with an AsyncLedger"):
        Ledger("memory:").protect("x", key=lambda: 1)(awaited)
    with pytest.raises(TypeError, match="with an AsyncLedger"):
        Ledger("memory:").call(Key("x", 1), awaited)
    with pytest.raises(TypeError, match="neither Ledger nor AsyncLedger protects a generator"):
        Ledger("memory:").protect("x", key=lambda: 1)(async_generator)
    with pytest.raises(TypeError, match="generator"):
        Ledger("memory:").protect("x", key=lambda: 1)(generator)
    with pytest.raises(TypeError, match="with a Ledger"):
        AsyncLedger("memory:").protect("x", key=lambda: 1)(blocking)  # type: ignore[arg-type]


def test_the_running_claim_is_known_inside_and_nowhere_else(door):
    inside = []
    key = Key("current", 1)

    door.call(key, lambda: inside.append((current_claim().key, current_claim().fence)))

    assert inside == [(key, stored(door.store, key).fence)]
    with pytest.raises(Misconfigured, match="no claim is running here"):
        current_claim()


def test_a_block_that_is_left_normally_settles_and_one_left_by_an_error_does_not():
    ledger = Ledger("memory:")
    with ledger.claim(Key("b", 1)) as claim:
        assert (claim.won, claim.lost, claim.receipt) == (True, False, None)
        claim.settle("by hand")
    with ledger.claim(Key("b", 2)):
        pass
    with pytest.raises(Refused), ledger.claim(Key("b", 3)):
        raise Refused("no")
    with ledger.claim(Key("b", 1)) as again:
        assert (again.state, again.receipt) == ("done", "by hand")
    with ledger.claim(Key("b", 4)) as put_aside:
        put_aside.park("ask Ann")

    states = [entry.state for entry in map(ledger.look, [Key("b", n) for n in (1, 2, 3, 4)]) if entry]
    assert states == ["done", "done", "free", "parked"]
    assert repr(again) == "<Claim b/1 done>"


def test_an_async_block_settles_and_can_be_awaited_instead():
    async def main() -> list[str]:
        ledger = AsyncLedger("memory:")
        async with ledger.claim(Key("b", 1)) as claim:
            await claim.settle("by hand")
        async with ledger.claim(Key("b", 2)):
            pass
        with pytest.raises(Refused):
            async with ledger.claim(Key("b", 3)):
                raise Refused("no")
        parked = await ledger.claim(Key("b", 4))
        await parked.park("ask Ann")
        return [(await ledger.claim(Key("b", n))).state for n in (1, 2, 3, 4)]

    assert asyncio.run(main()) == ["done", "done", "busy", "parked"]


def test_entries_lists_open_ones_page_by_page_and_others_on_request():
    ledger = Ledger("memory:")
    ledger.settle_many([(one, 1) for one in ledger.claim_many([Key("l", n) for n in range(1, 1200)])])
    held = ledger.claim_many([Key("l", n) for n in range(2000, 3100)])

    assert len(list(ledger.entries("l"))) == len(held)
    assert len(list(ledger.entries("l", "done"))) == 1199
    assert list(ledger.entries("other")) == []
    ledger.release_many(held)


def test_async_entries_and_look():
    async def main() -> tuple[int, Any, Any]:
        ledger = AsyncLedger("memory:")
        claims = await ledger.claim_many([Key("l", n) for n in range(1, 700)])
        open_ones = [key async for key, _ in ledger.entries("l")]
        await ledger.release_many(claims)
        seen = await ledger.look(Key("l", 5)), await ledger.look(Key("l", 999))
        await ledger.close()
        return len(open_ones), *seen

    count, one, none = asyncio.run(main())
    assert (count, one.state, none) == (699, "free", None)


def test_a_person_resolves_and_the_act_is_noted(door, time):
    key = Key("people", 1)
    door.do(door.ledger.claim(key))
    time.now += 60
    door.call(key, lambda: 5)

    door.do(door.ledger.resolve(key, happened=True, receipt="seen at the bank", by="ann"))

    assert door.call(key, lambda: 5).receipt == "seen at the bank"
    [(_, audit)] = run(page("onefold.audit", ("done",), None), Ports(door.store))[0]
    assert audit.entry is not None
    assert audit.entry.body is not None
    assert '"by": "ann"' in audit.entry.body
    assert '"was": "in-doubt"' in audit.entry.body


def test_an_operator_may_retry_what_failed_but_not_what_is_in_doubt(store, time):
    ports, ledger = Ports(store), Ledger(store)
    with pytest.raises(ValueError, match="x"):
        ledger.call(Key("r", 1), lambda: int("x"))
    with pytest.raises(Refused):
        ledger.call(Key("r", 2), _refuse)

    assert run(retry(Key("r", 1), "ann", "t1"), ports).state == "lost"
    assert run(retry(Key("r", 2), "ann", "t2"), ports).state == "settled"
    assert run(retry(Key("r", 3), "ann", "t3"), ports).state == "lost"
    assert ledger.call(Key("r", 2), lambda: 5).state == "ran"


def _refuse() -> None:
    raise Refused("not yet")


def test_the_default_ledger_is_found_the_same_way_everywhere(tmp_path, monkeypatch, caplog):
    (tmp_path / "below" / "deep").mkdir(parents=True)
    (tmp_path / "onefold.toml").write_text('store = "sqlite:///state/here.db"')
    (tmp_path / "state").mkdir()
    monkeypatch.chdir(tmp_path / "below" / "deep")
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)

    Ledger().call(Key("x", 1), lambda: 5)
    assert (tmp_path / "state" / "here.db").exists()

    monkeypatch.setenv("ONEFOLD_STORE", f"sqlite:///{tmp_path}/from-env.db")
    Ledger().call(Key("x", 1), lambda: 5)
    assert (tmp_path / "from-env.db").exists()

    monkeypatch.delenv("ONEFOLD_STORE")
    (tmp_path / "onefold.toml").unlink()
    odd = tmp_path / "100% odd? #name"
    odd.mkdir()
    monkeypatch.chdir(odd)
    ledger = Ledger()
    ledger.call(Key("x", 1), lambda: 5)
    ledger.close()
    assert ledger.call(Key("x", 1), lambda: 6).receipt == 5
    assert str(odd / "onefold.db") in caplog.text
    assert (odd / "onefold.db").exists()


@pytest.mark.parametrize(("text", "words"), [("store = 5", "store in"), ("store = [", "cannot be read")])
def test_a_broken_settings_file_is_named(tmp_path: Path, monkeypatch, text, words):
    (tmp_path / "onefold.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)

    with pytest.raises(Misconfigured, match=words):
        Ledger().look(Key("x", 1))


def test_a_ledger_that_may_not_create_says_what_is_missing(tmp_path):
    with pytest.raises(Misconfigured, match="does not exist"):
        Ledger(f"sqlite:///{tmp_path}/none.db", create=False).look(Key("x", 1))


def test_an_awaited_store_may_be_given_as_an_object():
    store = MemoryStore()

    async def main() -> str:
        return (await AsyncLedger(Inline(store)).call(Key("x", 1), _five)).state

    assert asyncio.run(main()) == "ran"
    assert stored(store, Key("x", 1)).body == "5"


async def _five() -> int:
    return 5
