"""What every store must pass, as one pytest class: `StoreContract`.

A store's test is a subclass with a name and a way to open it; the same class serves blocking and awaited
stores. The promises are flows in the modules of this folder. No promise can be overridden: a store that
needs an exception breaks the contract.

    class TestSqlite(StoreContract):
        name = "sqlite"

        def open(self, folder: Path, clock: FakeClock) -> SqliteStore:
            return SqliteStore(folder / "ledger.db", clock=clock)

        reopen = open
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from onefold.testing.clock import FakeClock
from onefold.testing.contract import hostile, removing, scanning, sharing, timing, writing
from onefold.testing.contract.stage import PROMISES, AnyStore, NotHere, Open, Promise, Subject, hold

__all__ = ["FakeClock", "StoreContract", "contract_tests", "failures"]

# The order of the imports above is the alphabet's; readers meet the promises in this one.
_ORDER = [module.__name__ for module in (writing, timing, removing, scanning, hostile, sharing)]
PROMISES.sort(key=lambda told: _ORDER.index(told.__module__))


class StoreContract:
    """Everything that a store promises. Subclass it, give it a name and a way to open an empty store."""

    name: ClassVar[str]
    """The store as its URL names it; the closing line of a test run counts by it."""

    own_clock: ClassVar[bool] = False
    """True for a store whose clock cannot be given to it: then real time passes, about ten seconds."""

    shared: ClassVar[bool] = True
    """False for a store that only one thread may use."""

    max_skew: ClassVar[float] = 0.0
    """How far apart workers' clocks may be, for a store that has no clock and takes theirs, in seconds."""

    def open(self, folder: Path, clock: FakeClock) -> AnyStore:
        """Return a new, empty store, whose clock is `clock` unless it has one of its own."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to open its store")

    def reopen(self, folder: Path, clock: FakeClock) -> AnyStore | None:
        """Return another handle on the store that was opened; None if entries do not outlive a handle."""
        return None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in contract_tests():
            if getattr(cls, name) is not getattr(StoreContract, name):
                raise TypeError(f"{cls.__name__} overrides {name}: a store keeps the contract or it does not")
        if "name" in vars(cls):
            _mark(cls)


def contract_tests() -> list[str]:
    """Name the tests of the contract."""
    return [name_of(told) for told in PROMISES]


def name_of(told: Promise) -> str:
    """Name the test that a promise becomes."""
    return f"test_{told.__name__}"


def _as_test(told: Promise) -> Callable[[StoreContract, Path], None]:
    def test(self: StoreContract, tmp_path: Path) -> None:
        import pytest

        try:
            hold(told, _subject(self), tmp_path)
        except NotHere as reason:
            pytest.skip(str(reason))

    test.__name__ = name_of(told)
    test.__qualname__ = f"{StoreContract.__name__}.{test.__name__}"
    test.__doc__ = told.__doc__
    return test


for _told in PROMISES:
    setattr(StoreContract, name_of(_told), _as_test(_told))


def _subject(contract: StoreContract) -> Subject:
    def reopen(folder: Path, clock: FakeClock) -> AnyStore:
        handle = contract.reopen(folder, clock)
        if handle is None:
            raise NotHere("entries of this store do not outlive its handle")
        return handle

    return Subject(contract.open, reopen, contract.own_clock, contract.shared, contract.max_skew)


def _mark(cls: type[StoreContract]) -> None:
    import pytest

    cls.pytestmark = [*getattr(cls, "pytestmark", []), pytest.mark.store(cls.name)]  # type: ignore[attr-defined]


# ----- without pytest


def failures(
    open: Open, reopen: Open | None = None, only: Collection[str] = (), max_skew: float = 0.0
) -> list[str]:
    """Run the whole contract, or the named tests only, without pytest; name the tests that a store fails."""
    tried = [told for told in PROMISES if not only or name_of(told) in only]
    return [name_of(told) for told, _ in broken(Subject(open, reopen, max_skew=max_skew), tried)]


def broken(subject: Subject, promises: Iterable[Promise]) -> Iterator[tuple[Promise, Exception]]:
    """Give the promises that a store breaks, each with what was raised."""
    if not __debug__:
        raise RuntimeError("promises are checked by assert: run without -O, or everything passes")
    for told in promises:
        with TemporaryDirectory(prefix="onefold-") as folder:
            try:
                hold(told, subject, Path(folder))
            except NotHere:
                continue
            except Exception as error:
                yield told, error
