"""A source that follows a script shows each step once, in time, and repeats what a feed would repeat."""

import pytest

from onefold import Pipeline, Record
from onefold.core.cursor import Cursor
from onefold.core.record import Gap, Page
from onefold.runtime import monotonic
from onefold.sinks.function import Function
from onefold.testing import Scripted, Simulation
from onefold.testing.scripted import Step

ONE, TWO, THREE = (Record(name, {}, at) for at, name in enumerate(("one", "two", "three"), 1))


class Acted:
    """A pipeline over a script, and when it acted on what."""

    def __init__(self, source: Scripted) -> None:
        self.done: list[tuple[float, str]] = []
        self.pipeline = Pipeline(
            "acted", sources={"script": source}, key=lambda one: one.id, sink=Function(self._act)
        )

    def _act(self, record: Record) -> None:
        self.done.append((round(monotonic(), 1), record.id))


def acted(*script: Step, seconds: float = 600, **options: bool) -> list[tuple[float, str]]:
    act = Acted(Scripted(script, **options))
    with Simulation() as simulation:
        simulation.start(act.pipeline)
        simulation.run(seconds)
    return act.done


def test_records_and_pages_are_shown_in_order_and_pauses_last_as_long_as_they_say():
    done = acted(ONE, 60, Page([TWO, THREE]))

    assert done == [(0.0, "one"), (60.0, "two"), (60.0, "three")]


def test_an_error_is_raised_once_and_the_script_goes_on_after_it():
    done = acted(ONE, OSError("the line is cut"), TWO)

    assert [name for _, name in done] == ["one", "two"]
    assert done[1][0] > 0  # the reader paused after the error


def test_a_page_is_shown_as_it_is_with_its_gap():
    source = Scripted([Page([ONE], Gap(None, 1, "the feed forgot")), 1])
    act = Acted(source)
    with Simulation() as simulation:
        worker = simulation.start(act.pipeline)
        simulation.run(10)

    assert worker.tallies["acted"].total("gap") == 1


def test_the_source_remembers_the_fates_that_it_heard():
    def act(record: Record) -> None:
        if record.id == "two":
            raise OSError("no answer")

    source = Scripted([ONE, TWO])
    pipeline = Pipeline("told", sources={"script": source}, key=lambda one: one.id, sink=Function(act))
    with Simulation() as simulation:
        simulation.start(pipeline)
        simulation.run(10)

    assert [(record.id, fate) for record, fate in source.told] == [("one", "done"), ("two", "parked")]
    assert source.is_over


def begun_around_a_kill(repeats: bool) -> list[str]:
    """Kill a worker that acts on one record and has read another; say on what it and the next one act."""
    begun: list[str] = []

    async def act(record: Record) -> None:
        begun.append(record.id)
        if len(begun) == 1:
            await simulation.loop.create_future()  # the first worker never gets further

    source = Scripted([ONE, 5, TWO, 120, THREE], repeats=repeats)
    pipeline = Pipeline(
        "killed", sources={"script": source}, key=lambda one: one.id, sink=Function(act), at_once=1
    )
    with Simulation() as simulation:
        worker = simulation.start(pipeline)
        simulation.run(10)
        simulation.kill(worker)
        simulation.start(pipeline)
        simulation.run(300)
    return begun


def test_after_a_crash_a_source_that_repeats_shows_again_what_was_read_and_not_done():
    assert begun_around_a_kill(repeats=True) == ["one", "two", "three"]


def test_after_a_crash_a_source_that_does_not_repeat_has_lost_what_was_read_and_not_done():
    assert begun_around_a_kill(repeats=False) == ["one", "three"]


def test_time_passes_in_a_pause_while_no_worker_reads():
    act = Acted(Scripted([ONE, 60, TWO]))
    with Simulation() as simulation:
        worker = simulation.start(act.pipeline)
        simulation.run(10)
        simulation.kill(worker)
        simulation.run(30)
        simulation.start(act.pipeline)
        simulation.run(60)

    assert act.done == [(0.0, "one"), (60.0, "two")]


def test_two_workers_share_the_steps_of_one_script():
    act = Acted(Scripted([5, ONE, 5, TWO, 5, THREE], repeats=False))
    with Simulation() as simulation:
        simulation.start(act.pipeline)
        simulation.start(act.pipeline)
        simulation.run(60)

    assert act.done == [(5.0, "one"), (10.0, "two"), (15.0, "three")]


def test_a_finite_script_ends_its_worker_and_another_one_stays_silent():
    def ended(**options: bool) -> bool:
        with Simulation() as simulation:
            worker = simulation.start(Acted(Scripted([ONE], **options)).pipeline)
            simulation.run(10)
            return worker.stopping

    assert ended(finite=True)
    assert not ended(finite=False)


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ((ONE, TWO, 60, THREE), ["one", "two"]),
        ((60, ONE), ["one"]),
        ((OSError("once"), ONE, 60, TWO), ["one"]),
        ((), []),
    ],
)
def test_a_worker_that_reads_once_ends_at_the_first_pause_or_at_the_end(script, shown):
    act = Acted(Scripted(script))
    with Simulation() as simulation:
        worker = simulation.start(act.pipeline, once=True)
        simulation.run(600)

    assert [name for _, name in act.done] == shown
    assert worker.stopping


def test_a_new_read_shows_only_what_the_cursor_minus_the_lag_has_not_passed():
    async def again(source: Scripted, cursor: Cursor) -> list[list[str]]:
        return [[record.id for record in page.records] async for page in source.read(cursor)]

    def reads(lag: float | None, cursor: Cursor) -> list[list[str]]:
        source = Scripted([ONE, TWO, THREE], finite=True, lag=lag)
        with Simulation() as simulation:
            simulation.loop.run_until_complete(again(source, Cursor()))
            return simulation.loop.run_until_complete(again(source, cursor))

    assert reads(None, Cursor(2)) == [["two", "three"], []]
    assert reads(1, Cursor(3)) == [["two", "three"], []]
    assert reads(None, Cursor()) == [["one", "two", "three"], []]


@pytest.mark.parametrize("step", ["one", None, True, -1, float("nan"), OSError])
def test_what_is_no_step_is_refused_when_the_script_is_written(step):
    with pytest.raises(TypeError, match="a script has records, pages, pauses"):
        Scripted([step])
