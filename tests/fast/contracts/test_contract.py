"""The contract as a class: it cannot be weakened, says what it tested, and leaves out what does not apply."""

from pathlib import Path

import pytest

from onefold.core.flow import get
from onefold.core.key import Key
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.testing.contract import StoreContract, contract_tests, failures
from onefold.testing.contract.hostile import hostile_keys
from onefold.testing.contract.stage import PROMISES, NotHere, Stage, Subject, hold


def memory(folder: Path, clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


def test_a_contract_test_cannot_be_overridden():
    name = contract_tests()[0]

    with pytest.raises(TypeError, match=f"Weaker overrides {name}"):
        type("Weaker", (StoreContract,), {name: lambda self: None})


def test_a_contract_test_cannot_be_taken_away():
    with pytest.raises(TypeError, match="keeps the contract or it does not"):
        type("Weaker", (StoreContract,), {contract_tests()[-1]: None})


def test_a_contract_test_cannot_be_overridden_by_another_parent():
    excuse = type("Excuse", (), {contract_tests()[3]: lambda self: None})

    with pytest.raises(TypeError, match="overrides"):
        type("Weaker", (excuse, StoreContract), {"name": "memory"})


def test_tests_of_a_stores_own_may_be_added():
    more = type("More", (StoreContract,), {"name": "memory", "test_of_its_own": lambda self: None})

    assert hasattr(more, "test_of_its_own")


def test_a_contract_is_marked_with_the_name_of_its_store():
    marked = type("Named", (StoreContract,), {"name": "sqlite"})

    assert [(mark.name, mark.args) for mark in vars(marked)["pytestmark"]] == [("store", ("sqlite",))]


def test_the_contract_says_what_is_missing_when_it_cannot_open_the_store(tmp_path):
    lost = type("Lost", (StoreContract,), {"name": "memory"})

    with pytest.raises(NotImplementedError, match="Lost does not say how to open its store"):
        getattr(lost(), contract_tests()[0])(tmp_path)


def test_promises_about_what_a_store_does_not_have_are_left_out(tmp_path):
    left_out = []
    for number, promise in enumerate(PROMISES):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            hold(promise, Subject(memory, shared=False), folder)
        except NotHere:
            left_out.append(promise.__name__)

    assert len(left_out) == 8
    assert all(name.startswith(("of_", "batches_", "another_", "what_was", "a_closed")) for name in left_out)


def test_a_contract_with_a_single_handle_skips_with_a_reason(pytester):
    pytester.makepyfile(
        """
        from onefold.stores.memory import MemoryStore
        from onefold.testing.contract import StoreContract

        class TestLonely(StoreContract):
            name = "memory"

            def open(self, folder, clock):
                return MemoryStore(clock)
        """
    )

    result = pytester.runpytest_inprocess("-q", "-rs", "-W", "ignore::pytest.PytestUnknownMarkWarning")

    result.assert_outcomes(passed=len(contract_tests()) - 5, skipped=5)
    result.stdout.fnmatch_lines(["*entries of this store do not outlive its handle*"])


def test_a_promise_that_does_not_end_is_stopped(tmp_path):
    async def for_ever(stage: Stage) -> None:
        while True:
            await get([Key("scope", 1)])

    with pytest.raises(AssertionError, match="does not come to an end"):
        hold(for_ever, Subject(memory), tmp_path)


def test_an_exception_of_the_store_counts_as_a_failure():
    class Broken(MemoryStore):
        def get(self, keys):
            raise OSError("gone")

    assert contract_tests()[0] in failures(lambda folder, clock: Broken(clock))


def test_hostile_keys_are_pairwise_different():
    keys = hostile_keys()

    assert len(keys) == 1000
    assert len({key.id for key in keys}) == 1000
    assert len({key.label for key in keys}) < 1000, "labels are for people, and some of these look alike"
