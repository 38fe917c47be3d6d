"""How benchmarks are compared and shown: who skips work is no winner, turns are fair, targets are judged."""

from typing import Any

import pytest

from benchmarks.measure import Absent, Contestant, Keys, Row, Skipped, Table, compare, shown


def contestant(name: str, effects: float) -> Contestant:
    """One that runs this part of the effects asked for, whether keys are new or not."""
    return Contestant(name, "none", lambda keys: int(len(keys) * effects))


@pytest.mark.parametrize(
    ("kind", "ran"), [("each", 0.5), ("each", 0), ("each", 2), ("none", 1)], ids=lambda value: str(value)
)
def test_a_contestant_that_skips_or_repeats_work_is_no_winner(kind: Any, ran: float):
    with pytest.raises(Skipped, match="lazy"):
        compare("planted", [contestant("lazy", ran)], [["a", "b"]], kind)


def test_contestants_take_turns_and_slow_ones_get_fewer_keys():
    played: list[tuple[str, int]] = []

    def play(name: str, at_most: int | None) -> Contestant:
        def played_by(keys: Keys) -> int:
            played.append((name, len(keys)))
            return len(keys)

        return Contestant(name, "none", played_by, at_most)

    compare("turns", [play("a", None), play("slow", 1)], [["1", "2"], ["3", "4"]])
    warm_up, turns = played[:2], played[2:]
    assert warm_up == [("a", 1), ("slow", 1)]
    assert turns == [("a", 2), ("slow", 1), ("slow", 1), ("a", 2)]


def test_what_a_contestant_prepares_before_a_round_is_not_timed():
    now = 0.0

    def passes(seconds: float) -> int:
        nonlocal now
        now += seconds
        return int(seconds)

    one = Contestant("one", "none", lambda keys: passes(len(keys)), before=lambda: passes(1000))
    table = compare("prepared", [one], [["a", "b"], ["c", "d"]], clock=lambda: now)
    assert table.row("one").micros_each == 1e6


def test_the_time_of_the_processor_is_not_told_where_other_processes_work():
    elsewhere = Contestant("elsewhere", "none", len, in_process=False)
    table = compare("processes", [contestant("here", 1), elsewhere], [["a"]])
    assert [row.processor_micros is None for row in table.rows] == [False, True]
    assert "elsewhere" in shown(table)


def test_the_notes_of_a_table_stand_below_its_rows():
    table = Table("noted", [Row("ours", note="not run: planted")], notes=["first", "second"])
    assert shown(table).splitlines()[-3:] == [
        f"  {'ours':<34} not run: planted",
        "  first",
        "  second",
    ]


def test_a_peer_that_is_absent_is_said_to_be_so_and_aimed_at_by_nobody():
    table = compare("absent", [contestant("ours", 1), Absent("peer", "no module")], [["a"]])
    table.aim_at_fastest(["peer"], 1.0)
    assert table.row("peer") == Row("peer", note="not run: no module")


@pytest.mark.parametrize(("micros", "reached"), [(5.0, False), (10.0, True), (20.0, True)])
def test_a_target_is_reached_when_the_other_needs_that_much_longer(micros: float, reached: bool):
    ours = Row("ours", micros_each=10.0, ratio=1.0)
    fast = Row("fast", micros_each=micros, ratio=micros / 10)
    slow = Row("slow", micros_each=99.0, ratio=9.9)
    table = Table("aims", [ours, slow, fast])
    table.aim_at_fastest(["fast", "slow"], 1.0)
    assert (fast.reached, slow.reached) == (reached, None)


@pytest.mark.parametrize(("micros", "reached"), [(19.9, True), (20.1, False)])
def test_a_target_in_microseconds_is_a_ceiling(micros: float, reached: bool):
    table = Table("ceiling", [Row("ours", micros_each=micros)])
    table.aim_below("ours", 20.0)
    assert table.rows[0].reached is reached
