"""Planted bugs: each still fits the code, each is found, and none without being planted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from proof.sim import campaign
from proof.sim.bug import Bug, Edit, Misplanted, Swap
from proof.sim.checkers import PROMISES
from proof.sim.planted import BUGS, LEDGERS, named
from proof.sim.planting import Planted, changed, planted
from proof.sim.swapping import fitting
from tests.fast.simulation.living import seen
from tests.fast.simulation.test_regressions import SEEDS

THE_LIST = 22
"""Bugs of the list that fit the ledger alone; what comes after them is our own."""


def text_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text("utf-8")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_still_fits_the_code(bug):
    for edit in bug.edits:
        if isinstance(edit, Swap):
            assert fitting(import_module(edit.module), edit, bug.name)
            continue
        text = text_of(edit.module)

        assert changed(text, edit.module, bug) != text
        compile(changed(text, edit.module, bug), edit.module, "exec")


def test_every_planted_bug_has_a_name_of_its_own_and_says_what_is_wrong():
    assert len({bug.name for bug in BUGS}) == len(BUGS) > THE_LIST
    assert all(bug.sentence.endswith(".") for bug in BUGS)


@pytest.mark.parametrize("text", ["nothing of the kind\n", "x = 1\nx = 1\n"])
def test_a_bug_whose_text_is_gone_or_there_twice_is_an_error_that_names_it(text):
    bug = Bug("some-bug", "It is wrong.", (Edit("some.module", "x = 1\n", "x = 2\n"),))

    with pytest.raises(Misplanted, match="some-bug: its text stands"):
        changed(text, "some.module", bug)


def test_a_bug_that_is_not_there_is_not_planted():
    with pytest.raises(LookupError, match="--list"):
        named("no-such-bug")


def test_a_misplanted_bug_is_told_as_missed_and_not_as_found():
    account = campaign.Account(0, 0)
    account.add({"bug": "some-bug", "found": None, "error": "some-bug: its text stands 0 times"})

    assert not account.is_fine
    assert account.missed == ["some-bug: its text stands 0 times"]


# Of the others a seed is known, with which each is found: see test_regressions.
@pytest.mark.parametrize("bug", [one for one in LEDGERS if one.name not in SEEDS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    assert seen(bug, range(campaign.WITHIN))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nearly_every_checker_is_the_one_that_sees_some_planted_bug():
    checkers = set().union(*(seen(bug, range(200), most=None) for bug in LEDGERS))

    # These wait for rarer turns of fate, and are held one by one in test_checkers.
    assert checkers >= PROMISES.keys() - {"errors", "sink", "lost", "attempts"}


def test_planting_changes_modules_and_no_files_and_is_undone():
    before, text = import_module("onefold.core.claims"), text_of("onefold.core.claims")

    with planted(named("in-doubt-auto-retried")):
        wrong = import_module("onefold.core.claims")
        assert text_of("onefold.core.claims") == text

    assert "one-shot" in before._may_double.__code__.co_consts
    assert "one-shot" not in wrong._may_double.__code__.co_consts
    assert import_module("onefold.core.claims") is before


# ----- bugs that are planted by the name of a function

KINDS = """
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from msgspec import Struct

def plain(x):
    return x

def named(x, *, y=0):
    return x + y

def caller(x):
    return plain(x)

@cache
def cached(x):
    return x

async def coroutine(x):
    return x

async def pages(x):
    yield x
    yield x + 1

class Base:
    def method(self, x):
        return x

    async def awaited(self, x):
        return x

    async def walk(self, x):
        yield x

    @staticmethod
    def static(x):
        return x

    @classmethod
    def of(cls, x):
        return cls.__name__, x

    @property
    def size(self):
        return 1

    class Inner:
        def method(self, x):
            return x

class Child(Base):
    pass

class Row(NamedTuple):
    x: int

    def value(self):
        return self.x

@dataclass(frozen=True, slots=True)
class Point:
    x: int

    def value(self):
        return self.x

class Packed(Struct, frozen=True):
    x: int

    def value(self):
        return self.x
"""


def ten_more(original: Callable[..., Any], *args: Any) -> Any:
    """Call the original with ten more; for an async original this returns its coroutine or generator."""
    return original(*args[:-1], args[-1] + 10)


def value_and_ten(original: Callable[..., int], self: object) -> int:
    return original(self) + 10


async def ten_later(original: Callable[..., Any], *args: Any) -> Any:
    return await original(*args) + 10


async def first_only(original: Callable[..., AsyncIterator[int]], *args: Any) -> AsyncIterator[int]:
    async for one in original(*args):
        yield one
        return


async def collected(given: AsyncIterator[int]) -> list[int]:
    return [one async for one in given]


def planted_with(folder: Path, *swaps: Swap) -> ModuleType:
    """Import the module of all kinds, with these functions replaced."""
    file = folder / "kinds.py"
    file.write_text(KINDS)
    loader = Planted("kinds", str(file), Bug("some-bug", "It is wrong.", swaps))
    spec = ModuleSpec("kinds", loader, origin=str(file))
    spec.has_location = True
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("qualname", "replacement", "use", "wanted"),
    [
        ("plain", ten_more, lambda kinds: kinds.plain(1), 11),
        ("plain", ten_more, lambda kinds: kinds.caller(1), 11),
        ("named", lambda original, x, **more: original(x, **more) * 2, lambda kinds: kinds.named(1, y=4), 10),
        ("named", lambda original, x, y=0: y, lambda kinds: kinds.named(1, y=4), 4),
        ("cached", ten_more, lambda kinds: kinds.cached(1), 11),
        ("coroutine", ten_more, lambda kinds: asyncio.run(kinds.coroutine(1)), 11),
        ("coroutine", ten_later, lambda kinds: asyncio.run(kinds.coroutine(1)), 11),
        ("coroutine", lambda original, x: None, lambda kinds: asyncio.run(kinds.coroutine(1)), None),
        ("pages", ten_more, lambda kinds: asyncio.run(collected(kinds.pages(1))), [11, 12]),
        ("pages", first_only, lambda kinds: asyncio.run(collected(kinds.pages(1))), [1]),
        ("Base.method", ten_more, lambda kinds: kinds.Base().method(1), 11),
        ("Base.method", ten_more, lambda kinds: kinds.Child().method(1), 11),
        ("Base.awaited", ten_later, lambda kinds: asyncio.run(kinds.Base().awaited(1)), 11),
        ("Base.walk", ten_more, lambda kinds: asyncio.run(collected(kinds.Base().walk(1))), [11]),
        ("Base.static", ten_more, lambda kinds: (kinds.Base.static(1), kinds.Base().static(1)), (11, 11)),
        (
            "Base.of",
            ten_more,
            lambda kinds: (kinds.Base.of(1), kinds.Child.of(1)),
            (("Base", 11), ("Child", 11)),
        ),
        ("Base.size", value_and_ten, lambda kinds: kinds.Base().size, 11),
        ("Base.Inner.method", ten_more, lambda kinds: kinds.Base.Inner().method(1), 11),
        ("Row.value", value_and_ten, lambda kinds: kinds.Row(1).value(), 11),
        ("Point.value", value_and_ten, lambda kinds: kinds.Point(1).value(), 11),
        ("Packed.value", value_and_ten, lambda kinds: kinds.Packed(1).value(), 11),
    ],
)
def test_a_function_of_any_kind_is_replaced_by_its_name(qualname, replacement, use, wanted, tmp_path):
    assert use(planted_with(tmp_path)) != wanted
    assert use(planted_with(tmp_path, Swap("kinds", qualname, replacement))) == wanted


def test_a_replaced_async_function_is_still_async(tmp_path):
    kinds = planted_with(tmp_path, Swap("kinds", "coroutine", ten_more), Swap("kinds", "plain", ten_more))

    assert iscoroutinefunction(kinds.coroutine)
    assert not iscoroutinefunction(kinds.plain)


def test_closing_a_replaced_async_generator_closes_the_replacement(tmp_path):
    closed = []

    async def careful(original, x):
        try:
            async for one in original(x):
                yield one
        finally:
            closed.append(x)

    async def use_the_first(given):
        await anext(given)
        await given.aclose()

    kinds = planted_with(tmp_path, Swap("kinds", "pages", careful))
    asyncio.run(use_the_first(kinds.pages(1)))

    assert closed == [1]


def with_an_old_name() -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec("from onefold.core.entry import Seen\ndef wrong(original, x):\n    return Seen(x)", names)
    wrong: Callable[..., Any] = names["wrong"]
    return wrong


@pytest.mark.parametrize(
    ("qualname", "replacement", "complaint"),
    [
        ("gone", ten_more, "there is no function gone in kinds"),
        ("Base.gone", ten_more, "there is no function Base.gone in kinds"),
        ("Gone.method", ten_more, "there is no function Gone.method in kinds"),
        # It is a function of another class, which has to be named.
        ("Child.method", ten_more, "there is no function Child.method in kinds"),
        ("Base", ten_more, "Base of kinds is no function, but of type type"),
        ("coroutine", lambda original: None, "does not accept"),
        ("coroutine", lambda original, x, z: None, "does not accept"),
        # Callers may leave y out.
        ("named", lambda original, x, *, y: None, "does not accept"),
        ("plain", ten_later, "is not async, but the replacement is"),
        ("plain", with_an_old_name(), "import Seen inside the replacement"),
    ],
)
def test_a_swap_that_does_not_fit_is_an_error_that_names_the_bug(qualname, replacement, complaint, tmp_path):
    swap = Swap("kinds", qualname, replacement)
    with pytest.raises(Misplanted, match=f"some-bug: .*{complaint}"):
        planted_with(tmp_path, swap)


def test_a_module_that_imports_a_replaced_function_by_name_gets_the_replacement():
    terms = SimpleNamespace(lease=5, margin=1)
    before = import_module("onefold.worker.delivery")

    with planted(named("effect-started-after-stop-by")):
        wrong = import_module("onefold.worker.delivery")

    assert (before.stop_by(0, terms), wrong.stop_by(0, terms)) == (4, 6)
