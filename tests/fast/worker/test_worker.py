"""A worker acts on every record once, keeps what fails in its entry, and moves its cursor behind that."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import anyio
import pytest

from onefold.core.errors import Misconfigured, Refused
from onefold.core.key import Key
from onefold.core.record import Broken, Page, Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads
from onefold.stores.memory import MemoryStore
from onefold.worker import Pipeline, Worker
from onefold.worker.progress import cursor_key, position
from tests.fast.worker.stage import QUICK, FarSide, Feed, pipeline, records, run_until, store, until

EFFECTS = pytest.mark.parametrize("effect", ["one-shot", "keyed", "idempotent"])


def cursor(memory, name="feed"):
    [seen] = memory.get([cursor_key("stage", name)])
    return position(json.loads(seen.entry.body))[0].at if seen.entry else None


def entry(memory, *parts) -> Any:
    [seen] = memory.get([Key("stage", *parts)])
    return seen.entry


def broken(memory) -> list[Any]:
    found, _ = memory.scan("stage.broken", ("parked",), False, None, 10)
    return [seen.entry for _, seen in found]


@EFFECTS
def test_every_record_is_acted_upon_once_and_the_cursor_follows(effect):
    memory, awaited = store()
    far = FarSide()
    feed = Feed([*records(*range(500)), *records(*range(250))])

    code = Worker([pipeline(feed, far, effect=effect)], store=awaited).run()

    assert code == 0
    assert len(far.happened) == 500
    assert set(far.happened.values()) == {1}
    assert cursor(memory) == 499
    assert {fate for _, fate in feed.told} == {"done"}


def test_a_second_run_starts_at_the_cursor_and_repeats_nothing():
    _, awaited = store()
    far = FarSide()
    feed = Feed(records(*range(100)))
    for _ in range(2):
        Worker([pipeline(feed, far)], store=awaited).run()

    assert [place.at for place in feed.cursors] == [None, 99]
    assert set(far.happened.values()) == {1}


@EFFECTS
def test_what_refuses_is_tried_again_from_its_entry_and_holds_nobody_up(effect):
    memory, awaited = store()
    refusals: Counter[str] = Counter()

    def trouble(record: Record) -> None:
        if record.id == "r3" and refusals["r3"] < 2:
            refusals["r3"] += 1
            raise Refused("not now")

    far = FarSide(trouble)
    feed = Feed(records(*range(10)), finite=False)
    run_until(Worker([pipeline(feed, far, effect=effect)], store=awaited), lambda: len(far.happened) == 10)

    assert set(far.happened.values()) == {1}
    assert cursor(memory) == 9


def test_a_poison_record_is_parked_after_its_attempts_and_its_neighbours_go_through():
    memory, awaited = store()

    def trouble(record: Record) -> None:
        if record.id == "r3":
            raise Refused("never")

    far = FarSide(trouble)

    def parked() -> bool:
        found = entry(memory, "r3")
        return found is not None and found.state == "parked"

    run_until(Worker([pipeline(Feed(records(*range(10))[::-1], finite=False), far)], store=awaited), parked)

    assert len(far.happened) == 9
    found = entry(memory, "r3")
    assert found.why == "failed"
    assert '"error":"Refused: never"' in found.body


def test_a_one_shot_effect_that_raises_is_parked_in_doubt_at_once_and_the_exit_code_says_so():
    memory, awaited = store()

    def trouble(record: Record) -> None:
        if record.id == "r3":
            raise ValueError("half way")

    far = FarSide(trouble)
    code = Worker([pipeline(Feed(records(*range(10))), far)], store=awaited).run()

    assert code == 3
    assert entry(memory, "r3").why == "in-doubt"
    assert cursor(memory) == 9


def test_one_record_for_several_names_is_an_effect_for_each():
    _, awaited = store()
    far = FarSide()
    each = {"r1": ["ann", "bob"], "r2": [], "r3": ["ann"]}
    worker = Worker([pipeline(Feed(records(1, 2, 3)), far, each=lambda r: each[r.id])], store=awaited)
    worker.run()

    assert far.happened == {("r1", "ann"): 1, ("r1", "bob"): 1, ("r3", "ann"): 1}
    assert worker.tallies["stage"].total("filtered") == 1


def test_a_name_in_back_off_does_not_hold_up_the_others_or_the_cursor():
    memory, awaited = store()

    async def act(record, claim):
        if claim.name == "bob":
            raise Refused("bob is away")
        return

    slow = Terms(lease=60, backoff=(600, 600), attempts=3)
    feed = Feed(records(*range(20)))
    worker = Worker(
        [pipeline(feed, FarSide(), sink=Function(act), each=lambda r: ["ann", "bob"], terms=slow)],
        store=awaited,
    )
    worker.run()

    assert worker.tallies["stage"].total("done") == 20
    assert entry(memory, "r7", "bob").state == "free"
    assert entry(memory, "r7", "bob").body is not None
    assert cursor(memory) == 19


def test_names_that_cannot_be_had_now_are_asked_for_again():
    memory, awaited = store()
    far = FarSide()
    asked: Counter[str] = Counter()

    async def each(record: Record) -> list[str]:
        asked[record.id] += 1
        if asked[record.id] < 3:
            raise Refused("the list is away")
        return ["ann"]

    run_until(
        Worker([pipeline(Feed(records(1), finite=False), far, each=each)], store=awaited),
        lambda: far.happened["r1", "ann"] == 1,
    )
    assert cursor(memory) == 1


def test_a_record_without_a_key_is_set_aside_and_the_others_go_through():
    memory, awaited = store()
    far = FarSide()
    shown = [Record("r1", {"k": 1}, 1), Record("r2", {}, 2), Record("r3", {"k": 3}, 3)]
    worker = Worker([pipeline(Feed(shown), far, key=lambda r: r.body["k"])], store=awaited)
    worker.run()

    [set_aside] = broken(memory)
    assert set_aside.why == "failed"
    assert "it has no key" in set_aside.body
    assert len(far.happened) == 2
    assert cursor(memory) == 3


def test_what_is_no_record_is_kept_with_the_reason():
    memory, awaited = store()

    async def read(cursor):
        yield Page(records(1), broken=[Broken('{"half', "it ends in the middle")])

    far = FarSide()
    Worker([pipeline(Reads(read, finite=True), far)], store=awaited).run()

    [set_aside] = broken(memory)
    assert "it ends in the middle" in set_aside.body
    assert len(far.happened) == 1


def test_a_record_that_is_passed_over_needs_nothing_and_moves_the_cursor():
    memory, awaited = store()
    far = FarSide()
    Worker([pipeline(Feed(records(1, 2)), far, key=lambda r: None)], store=awaited).run()

    assert not far.happened
    assert cursor(memory) == 2


def test_a_source_that_fails_does_not_disturb_another():
    _, awaited = store()
    far = FarSide()

    async def failing(cursor):
        if cursor is not None:
            raise OSError("no route")
        yield Page([])

    worker = Worker(
        [
            pipeline(
                None, far, sources={"bad": Reads(failing), "good": Feed(records(*range(50)), finite=False)}
            )
        ],
        store=awaited,
    )
    run_until(worker, lambda: len(far.happened) == 50 and "bad" in worker.tallies["stage"].errors)

    assert "no route" in worker.tallies["stage"].errors["bad"]
    assert not worker.ready


def test_two_raced_sources_make_one_effect_and_the_slower_one_is_counted_late():
    _, awaited = store()
    far = FarSide()
    fast, slow = Feed(records(*range(50)), finite=False), Feed(records(*range(50)), finite=False)
    worker = Worker([pipeline(None, far, sources={"fast": fast, "slow": slow})], store=awaited)
    tally = worker.tallies["stage"]
    run_until(worker, lambda: len(far.happened) == 50 and tally.total("late") == 50)

    assert set(far.happened.values()) == {1}
    assert tally.race.first["fast"] + tally.race.first["slow"] == 50


def test_an_effect_that_hangs_is_given_up_and_its_neighbours_go_through():
    memory, awaited = store()

    async def act(record):
        if record.id == "r3":
            await anyio.sleep_forever()

    plan = pipeline(Feed(records(*range(10))), FarSide(), sink=Function(act), timeout=0.05)
    worker = Worker([plan], store=awaited)
    worker.run()

    assert worker.tallies["stage"].total("done") == 9
    assert entry(memory, "r3").why == "in-doubt"


@pytest.mark.parametrize(
    ("effect", "rest"),
    [("idempotent", "free"), ("one-shot", "unclaimed")],  # a one-shot effect is claimed as it starts
)
def test_a_stop_lets_running_effects_end_and_gives_back_what_was_not_started(effect, rest):
    memory, awaited = store()
    started: list[str] = []
    go: list[anyio.Event] = []

    async def act(record):
        started.append(record.id)
        await go[0].wait()

    worker = Worker(
        [pipeline(Feed(records(*range(10))), FarSide(), sink=Function(act, effect=effect), at_once=2)],
        store=awaited,
    )

    async def main():
        go.append(anyio.Event())
        async with anyio.create_task_group() as group:
            group.start_soon(worker.arun)
            await until(lambda: len(started) == 2)
            worker.stop()
            go[0].set()

    anyio.run(main)

    found = [entry(memory, f"r{n}") for n in range(10)]
    assert Counter(one.state if one else "unclaimed" for one in found) == {"done": 2, rest: 8}
    assert not any(one.attempt for one in found if one and one.state == "free")


def test_what_outlives_the_grace_time_is_cut_off_and_in_doubt():
    memory, awaited = store()
    started: list[str] = []

    async def act(record):
        started.append(record.id)
        await anyio.sleep_forever()

    plan = pipeline(Feed(records(1)), FarSide(), sink=Function(act))
    worker = Worker([plan], store=awaited, grace=0.05)
    code = run_until(worker, lambda: bool(started))

    assert code == 3
    assert entry(memory, "r1").why == "in-doubt"


def test_a_probe_settles_what_is_in_doubt():
    from onefold.core.claims import Happened

    memory, awaited = store()

    async def act(record):
        raise ValueError("the reply was lost")

    async def probe(claim, record):
        return Happened({"found": record.id})

    plan = pipeline(Feed(records(1), finite=False), FarSide(), sink=Function(act, probe=probe))

    def done() -> bool:
        found = entry(memory, "r1")
        return found is not None and found.state == "done"

    run_until(Worker([plan], store=awaited), done)
    assert entry(memory, "r1").body == '{"found":"r1"}'


def test_a_prepared_request_is_stored_before_it_is_sent_and_the_same_at_every_attempt():
    _, awaited = store()
    prepared: list[int] = []
    sent: list[object] = []

    async def prepare(claim, record):
        prepared.append(1)
        return {"client_id": f"c{len(prepared)}"}

    async def act(record, claim):
        sent.append(claim.request)
        if len(sent) < 3:
            raise Refused("try again")

    plan = pipeline(Feed(records(1), finite=False), FarSide(), sink=Function(act, prepare=prepare))
    run_until(Worker([plan], store=awaited), lambda: len(sent) == 3)

    assert sent == [{"client_id": "c1"}] * 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sources": {}}, "has no source"),
        ({"at_once": 0}, "at_once"),
        ({"timeout": 0}, "timeout"),
        ({"key": {"other": len}}, "no key function for its source feed"),
        ({"sink": object()}, "declares effect None"),
        ({"undo": object()}, "declares effect None"),
        ({"terms": Terms(keep=5)}, "raise keep"),
    ],
)
def test_a_pipeline_that_cannot_work_is_refused_when_it_is_made(change, says):
    feed = Feed()
    feed.lag = 10.0
    with pytest.raises(Misconfigured, match=says):
        pipeline(feed, FarSide(), **change)


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_a_worker_needs_pipelines_of_different_names(names):
    plans = [Pipeline(n, {"feed": Feed()}, lambda r: r.id, Function(FarSide().act)) for n in names]
    with pytest.raises(Misconfigured):
        Worker(plans)


def test_a_key_of_another_scope_is_refused():
    plan = pipeline(Feed(), FarSide(), key=lambda r: Key("other", r.id), terms=QUICK)
    with pytest.raises(Misconfigured, match="carry its own name"):
        plan.key_of(records(1)[0])


def test_an_answer_for_each_item_is_asked_of_a_sink():
    memory, awaited = store()

    class Short:
        effect = "idempotent"
        batch = 5

        async def put(self, work):
            return [None] * (len(work) - 1)

    run_until(
        Worker([pipeline(Feed(records(*range(5)), finite=False), FarSide(), sink=Short())], store=awaited),
        lambda: (found := entry(memory, "r1")) is not None and found.state == "parked",
    )
    assert "answered 4 of 5" in entry(memory, "r1").body


class Stubborn(Inline):
    """A store that will not write *begun* for a while, and says that it cannot be asked so."""

    left = 5

    async def swap(self, changes):
        begins = [one for one in changes if one.begin]
        if begins and self.left:
            self.left -= 1
            raise Misconfigured("this entry was written by a later version")
        return await super().swap(changes)


def test_a_store_that_refuses_to_begin_stops_no_worker_and_takes_up_no_room():
    # Two places only: a refusal that kept one would leave none for the rest.
    far, memory = FarSide(), MemoryStore()
    feed = Feed(records(*range(6)), finite=False)
    worker = Worker([pipeline(feed, far, at_once=2)], store=Stubborn(memory))

    run_until(worker, lambda: len(far.happened) == 6)

    assert set(far.happened.values()) == {1}
