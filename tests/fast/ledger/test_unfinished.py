"""Effects that return something still to run: an error, and never done."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from onefold import AsyncLedger, Key, Ledger
from onefold.core.errors import Unfinished
from onefold.drive import Inline
from onefold.drive.functions import kind, name_of, unfinished
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import stored

KEY = Key("unfinished", 1)


async def send() -> str:
    raise AssertionError("nobody awaits this")


def numbers() -> Any:
    yield 1


async def later_numbers() -> Any:
    yield 1


class Sender:
    async def __call__(self) -> str:
        return "sent"


class Numbers:
    def __call__(self) -> Any:
        yield 1


class Pending:
    def __await__(self) -> Any:
        yield


UNFINISHED: list[tuple[Callable[[], Any], str]] = [
    (lambda: send(), "a coroutine that nobody awaited"),
    (lambda: numbers(), "a generator"),
    (lambda: later_numbers(), "an async generator"),
    (lambda: Sender()(), "a coroutine that nobody awaited"),
    (lambda: map(print, [1]), "a generator"),
    (lambda: Pending(), "an awaitable or future"),
    (lambda: Future(), "an awaitable or future"),
    (lambda: [send(), send()], "a coroutine that nobody awaited inside a list"),
]


@pytest.mark.parametrize(("function", "words"), UNFINISHED)
@pytest.mark.parametrize(("effect", "state"), [("one-shot", "parked"), ("idempotent", "free")])
def test_an_effect_that_returns_what_is_still_to_run_is_an_error_and_not_done(function, words, effect, state):
    store = MemoryStore()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "never awaited" would hide the error that says what to do
        with pytest.raises(
            Unfinished, match=f"unfinished/1 is not recorded as done.* returned {words}: protect"
        ):
            Ledger(store).call(KEY, function, effect=effect)

    assert stored(store, KEY).state == state


@pytest.mark.parametrize(("function", "words"), UNFINISHED)
def test_an_awaited_effect_that_returns_what_is_still_to_run_is_not_done_either(function, words):
    store = MemoryStore()

    async def effect() -> Any:
        return function()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unfinished, match=f"returned {words}: await it inside"):
            asyncio.run(AsyncLedger(Inline(store)).call(KEY, effect))

    assert stored(store, KEY).why == "in-doubt"


def test_no_type_in_safe_makes_an_unfinished_effect_free_again():
    store = MemoryStore()

    with pytest.raises(TypeError):
        Ledger(store).call(KEY, lambda: send(), safe=(Exception,))

    assert stored(store, KEY).why == "in-doubt"


def test_a_joined_effect_that_returns_what_is_still_to_run_is_rolled_back():
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE sent (id)")

    def effect() -> Any:
        connection.execute("INSERT INTO sent VALUES (1)")
        return send()

    ledger = Ledger.on(connection)
    with pytest.raises(Unfinished):
        ledger.call(KEY, effect)

    entry = ledger.look(KEY)
    assert entry is not None
    assert entry.state == "free"
    assert connection.execute("SELECT * FROM sent").fetchall() == []
    connection.close()


def test_a_claim_is_not_settled_with_what_is_still_to_run():
    store = MemoryStore()
    ledger = Ledger(store)

    with pytest.raises(Unfinished, match="its receipt is a coroutine"), ledger.claim(KEY) as claim:
        claim.settle(send())
    [other] = ledger.claim_many([Key("unfinished", 2)])
    with pytest.raises(Unfinished, match="its receipt is a generator"):
        ledger.settle_many([(other, numbers())])

    assert stored(store, KEY).why == "in-doubt"
    assert stored(store, Key("unfinished", 2)).state == "held"
    other.release()


@pytest.mark.parametrize("function", [send, Sender(), partial(send), partial(partial(Sender()))])
def test_an_async_callable_is_refused_by_a_ledger_before_anything_is_claimed(function):
    store = MemoryStore()

    with pytest.raises(TypeError, match="protect it with an AsyncLedger"):
        Ledger(store).call(KEY, function)
    with pytest.raises(TypeError, match="protect it with an AsyncLedger"):
        Ledger(store).protect("unfinished", key=lambda: 1)(function)

    assert store.get([KEY])[0].entry is None


@pytest.mark.parametrize("function", [send, Sender(), partial(Sender())])
def test_an_async_ledger_protects_every_async_callable(function):
    ledger = AsyncLedger("memory:")

    assert inspect.iscoroutinefunction(ledger.protect("unfinished", key=lambda: 1)(function))


@pytest.mark.parametrize("function", [numbers, later_numbers, Numbers(), partial(later_numbers)])
def test_both_ledgers_refuse_generators_with_the_same_words_before_anything_is_claimed(function):
    store = MemoryStore()
    words = "generator: neither Ledger nor AsyncLedger protects a generator, .*: protect the function that"

    with pytest.raises(TypeError, match=words):
        Ledger(store).call(KEY, function)
    with pytest.raises(TypeError, match=words):
        AsyncLedger(Inline(store)).protect("unfinished", key=lambda: 1)(function)
    with pytest.raises(TypeError, match=words):
        asyncio.run(AsyncLedger(Inline(store)).call(KEY, function))

    assert store.get([KEY])[0].entry is None


def test_a_sync_function_that_returns_an_awaitable_is_awaited_by_an_async_ledger():
    outcome = asyncio.run(AsyncLedger("memory:").call(KEY, lambda: Sender()()))

    assert outcome.receipt == "sent"


@pytest.mark.parametrize(
    ("function", "words"),
    [(lambda: 5, "a value of type int, which cannot be awaited"), (lambda: numbers(), "a generator")],
)
def test_a_sync_function_that_returns_no_awaitable_is_in_doubt_in_an_async_ledger(function, words):
    store = MemoryStore()

    with pytest.raises(Unfinished, match=f"returned {words}: make it an async function, or use a Ledger"):
        asyncio.run(AsyncLedger(Inline(store)).call(KEY, function))

    assert stored(store, KEY).why == "in-doubt"


def test_a_joined_async_effect_must_be_awaitable_too():
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")

    with pytest.raises(Unfinished):
        asyncio.run(AsyncLedger.on(connection).call(KEY, lambda: 5))  # type: ignore[arg-type, return-value]
    connection.close()


def test_the_error_says_that_the_effect_may_have_run_and_survives_pickling():
    error = Unfinished(KEY, "send returned a generator", "do the work")
    again = pickle.loads(pickle.dumps(error))

    assert (str(again), again.ran, again.key) == (str(error), "unknown", KEY)


def test_plain_values_and_a_coroutine_that_runs_elsewhere_are_told_apart():
    async def main() -> None:
        running = send()
        task = asyncio.ensure_future(running)
        assert unfinished([task]) == "an awaitable or future inside a list"
        with pytest.raises(AssertionError):
            await task
        assert unfinished(running) == "a coroutine that nobody awaited"

    asyncio.run(main())
    assert [unfinished(value) for value in (None, 5, "x", {"a": 1}, [1, {}], object(), ())] == [None] * 7
    assert (kind(print), kind(Sender), kind(lambda: 1)) == ("sync", "sync", "sync")
    assert name_of(partial(send)) == "send"
    assert name_of(Sender()).startswith("<")
