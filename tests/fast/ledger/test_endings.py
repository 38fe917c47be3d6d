"""What the end of an effect means: every row of the table, for every class, through the front doors."""

from __future__ import annotations

import asyncio

import pytest

from onefold import AsyncLedger, CannotHappen, Happened, Key, Refused, Terms
from onefold.core.claims import may_retry
from onefold.core.errors import Later, LostClaim, Rejected, Unreachable, Unsettled
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from tests.fast.ledger.doors import Blocking, Losing, stored

KEY = Key("endings", 1)
CLASSES = ["one-shot", "keyed", "idempotent"]
REPEATABLE = ["keyed", "idempotent"]


class Broke(Exception):
    pass


def raising(error: BaseException):
    def effect() -> None:
        raise error

    return effect


@pytest.mark.parametrize("effect", CLASSES)
def test_an_effect_that_returns_is_done(door, effect):
    door.call(KEY, lambda: 5, effect=effect)

    assert stored(door.store, KEY).state == "done"


@pytest.mark.parametrize("effect", CLASSES)
def test_an_effect_that_is_told_to_come_later_waits_that_long_and_uses_up_no_attempt(door, time, effect):
    terms = Terms(attempts=1)
    for _ in range(3):
        with pytest.raises(Later, match=r"again in 90\.0 s"):
            door.call(KEY, raising(Later("not final yet", 90)), effect=effect, terms=terms)
        entry = stored(door.store, KEY)
        assert (entry.state, entry.attempt, entry.not_before) == ("free", 0, entry.written + 90)
        time.now += 90

    assert door.call(KEY, lambda: 5, effect=effect, terms=terms).state == "ran"


@pytest.mark.parametrize("effect", CLASSES)
def test_an_effect_that_is_rejected_is_parked_as_failed_at_once_and_a_retry_is_safe(door, effect):
    with pytest.raises(Rejected):
        door.call(KEY, raising(Rejected("no such address")), effect=effect)

    entry = stored(door.store, KEY)
    assert (entry.state, entry.why, entry.attempt) == ("parked", "failed", 1)
    assert may_retry(entry)


@pytest.mark.parametrize("effect", CLASSES)
def test_an_effect_that_is_refused_is_free_and_retried_after_the_back_off(door, time, effect):
    with pytest.raises(Refused):
        door.call(KEY, raising(Refused("no")), effect=effect)
    entry = stored(door.store, KEY)
    too_early = door.call(KEY, lambda: 5, effect=effect)
    time.now += 1

    assert (entry.state, entry.not_before) == ("free", entry.written + 1)
    assert too_early.state == "busy"
    assert door.call(KEY, lambda: 5, effect=effect).state == "ran"


@pytest.mark.parametrize("effect", CLASSES)
def test_an_exception_named_safe_means_that_nothing_happened(door, effect):
    with pytest.raises(Broke):
        door.call(KEY, raising(Broke()), effect=effect, safe=(Broke,))

    assert stored(door.store, KEY).state == "free"


@pytest.mark.parametrize("effect", REPEATABLE)
def test_a_repeatable_effect_that_raises_is_free_and_retried_after_the_back_off(door, time, effect):
    with pytest.raises(Broke):
        door.call(KEY, raising(Broke()), effect=effect)
    state = stored(door.store, KEY).state
    time.now += 1

    assert state == "free"
    assert door.call(KEY, lambda: 5, effect=effect).state == "ran"


def test_a_one_shot_that_raises_is_parked_in_doubt_at_once(door):
    with pytest.raises(Broke):
        door.call(KEY, raising(Broke()))

    assert (stored(door.store, KEY).state, stored(door.store, KEY).why) == ("parked", "in-doubt")
    assert door.call(KEY, lambda: 5).state == "parked"


@pytest.mark.parametrize("effect", CLASSES)
def test_an_effect_that_is_refused_until_its_attempts_are_used_up_is_parked_as_failed(door, time, effect):
    terms = Terms(attempts=3)
    for _ in range(3):
        with pytest.raises(Refused):
            door.call(KEY, raising(Refused("no")), effect=effect, terms=terms)
        time.now += 100

    assert (stored(door.store, KEY).state, stored(door.store, KEY).why) == ("parked", "failed")
    assert door.call(KEY, lambda: 5, effect=effect, terms=terms).state == "parked"


@pytest.mark.parametrize("effect", REPEATABLE)
def test_a_dead_holder_whose_attempts_are_used_up_is_parked_as_failed(door, time, effect):
    for _ in range(2):
        door.do(door.ledger.claim(KEY, effect=effect, terms=Terms(attempts=2)))
        time.now += 60

    assert door.call(KEY, lambda: 5, effect=effect, terms=Terms(attempts=2)).state == "parked"
    assert stored(door.store, KEY).why == "failed"


def test_a_dead_one_shot_may_be_settled_by_a_probe_that_found_it(door, time):
    door.do(door.ledger.claim(KEY))
    time.now += 60

    outcome = door.call(KEY, lambda: "again", probe=lambda: Happened("found"))

    assert (outcome.state, outcome.receipt) == ("done", "found")


def test_a_dead_one_shot_runs_again_only_if_a_probe_says_that_it_cannot_happen_any_more(door, time):
    door.do(door.ledger.claim(KEY))
    time.now += 60

    outcome = door.call(KEY, lambda: "again", probe=CannotHappen)

    assert (outcome.state, outcome.receipt) == ("ran", "again")


def test_a_probe_that_finds_nothing_leaves_it_parked(door, time):
    door.do(door.ledger.claim(KEY))
    time.now += 60

    outcome = door.call(KEY, lambda: "again", probe=lambda: None)

    assert (outcome.state, stored(door.store, KEY).why) == ("parked", "in-doubt")


def test_a_probe_is_not_asked_about_what_is_not_parked(door):
    def probe() -> None:
        raise AssertionError("asked about a key that nobody parked")

    assert door.call(KEY, lambda: 5, probe=probe).state == "ran"
    assert door.call(KEY, lambda: 5, probe=probe).state == "done"


def test_a_probe_is_not_asked_about_what_has_failed(door, time):
    with pytest.raises(Refused):
        door.call(KEY, raising(Refused("no")), terms=Terms(attempts=1))

    outcome = door.call(KEY, lambda: 5, probe=lambda: Happened("found"))

    assert outcome.state == "parked"


def test_the_holder_of_a_parked_one_shot_may_still_settle_it(door, time):
    holder = door.do(door.ledger.claim(KEY))
    time.now += 60
    parked = door.call(KEY, lambda: "again")

    door.do(holder.settle("mine"))

    assert parked.state == "parked"
    assert door.call(KEY, lambda: "again").receipt == "mine"


def test_the_holder_of_a_parked_one_shot_cannot_settle_what_a_person_resolved(door, time):
    holder = door.do(door.ledger.claim(KEY))
    time.now += 60
    door.call(KEY, lambda: "again")
    door.do(door.ledger.resolve(KEY, happened=False, by="ops"))

    with pytest.raises(LostClaim):
        door.do(holder.settle("mine"))

    assert stored(door.store, KEY).state == "free"


def test_the_keyed_window_runs_from_the_first_begin_over_all_retries(door, time):
    for _ in range(2):
        with pytest.raises(Broke):
            door.call(KEY, raising(Broke()), effect="keyed", window="2m")
        time.now += 50

    time.now += 20
    outcome = door.call(KEY, lambda: 5, effect="keyed", window="2m")

    assert (outcome.state, stored(door.store, KEY).why) == ("parked", "in-doubt")


def test_if_the_store_goes_silent_after_the_effect_the_caller_is_told_that_it_happened(store):
    losing = Losing(store)
    ledger = Blocking(losing).ledger

    def effect() -> str:
        losing.lose = 1000
        return "sent"

    with pytest.raises(Unsettled) as told:
        ledger.call(KEY, effect)

    assert (told.value.receipt, told.value.ran) == ("sent", "yes")


def test_if_the_store_goes_silent_before_the_effect_nothing_runs(store):
    losing = Losing(store)
    losing.lose = 1000
    ran = []

    with pytest.raises(Unreachable):
        Blocking(losing).call(KEY, lambda: ran.append(1))

    assert ran == []


def test_the_functions_own_error_is_raised_even_if_the_store_cannot_be_told(store):
    losing = Losing(store)

    def effect() -> None:
        losing.lose = 1000
        raise Broke("mine")

    with pytest.raises(Broke) as told:
        Blocking(losing).call(KEY, effect)

    assert "onefold" in told.value.__notes__[0]


@pytest.mark.parametrize(
    ("effect", "state"), [("one-shot", "parked"), ("keyed", "free"), ("idempotent", "free")]
)
def test_a_cancelled_effect_ends_as_one_that_raised(effect, state):
    store = MemoryStore()

    async def main() -> None:
        ledger = AsyncLedger(Inline(store))
        started = asyncio.Event()

        async def hang() -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(ledger.call(KEY, hang, effect=effect))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert stored(store, KEY).state == state
