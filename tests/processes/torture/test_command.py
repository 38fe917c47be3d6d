"""`./dev torture` as it is run: what holds exits with 0, what was planted is counted and exits with 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onefold.core.entry import EFFECTS
from tests.torture.ended import Ended
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.store("sqlite")

slow = pytest.mark.slow
many_seconds = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("effect", "kills"),
    [
        ("one-shot", 30),
        ("joined", 30),
        pytest.param("keyed", 40, marks=slow),
        pytest.param("idempotent", 40, marks=slow),
        *(pytest.param(effect, 400, marks=[slow, many_seconds]) for effect in EFFECTS),
    ],
)
def test_what_is_promised_survives_kills(effect: str, kills: int, tmp_path: Path):
    ended = Ended(tmp_path, "kill", "--effect", effect, "--kills", str(kills))

    assert ended.code == 0, ended.text
    assert ended.number("kills") == kills
    assert ended.number("lost") == ended.number("unexplained") == 0
    assert effect == "idempotent" or ended.number("duplicated") == 0
    assert (ended.number("parked") > 0) == (effect == "one-shot")
    assert ended.left == []


@pytest.mark.parametrize(
    ("effect", "plant", "broken"),
    [
        ("one-shot", "wrong-class", "duplicated"),
        ("joined", "mark-before", "lost"),
        pytest.param("one-shot", "mark-before", "lost", marks=slow),
        pytest.param("keyed", "no-dedupe", "duplicated", marks=slow),
        pytest.param("idempotent", "mark-before", "lost", marks=slow),
    ],
)
def test_a_worker_that_is_wrong_is_found(effect: str, plant: str, broken: str, tmp_path: Path):
    ended = Ended(tmp_path, "kill", "--effect", effect, "--kills", "30", "--plant", plant)

    assert ended.code == 1, ended.text
    assert ended.number(broken) > 0
    assert f"again: ./dev torture kill --effect {effect} --kills 30 --store sqlite" in ended.text
    # What is called idempotent is never parked: a point that is never reached is a finding too.
    assert ("the point 'park: before swap' was hit 0 times" in ended.text) == (plant == "wrong-class")


def test_a_run_whose_random_kills_all_come_too_late_says_so_and_still_gives_its_account(tmp_path: Path):
    ended = Ended(tmp_path, "kill", "--effect", "keyed", "--kills", "40", module="tests.torture.too_late")

    assert ended.code == 1, ended.text
    assert f"only {ended.number('kills')} of 40 kills were made" in ended.text
    assert ended.number("duplicated") == ended.number("lost") == 0, ended.text
    assert ended.number("unexplained") == 1, ended.text
    assert ended.left == []


def test_workers_that_end_sooner_than_expected_are_killed_all_the_same(tmp_path: Path):
    ended = Ended(tmp_path, "kill", "--effect", "joined", "--kills", "40", module="tests.torture.short_lives")

    assert ended.code == 0, ended.text
    assert ended.number("kills") == 40
    assert ended.number("unexplained") == 0


def test_a_torture_that_fails_itself_does_not_exit_as_if_it_had_found_something(tmp_path: Path):
    ended = Ended(
        tmp_path, "kill", "--effect", "keyed", "--kills", "0", "--server-kills", "1", "--restart", "false"
    )

    assert ended.code == 3, ended.text
    assert "Traceback" in ended.errors
    with pytest.raises(AssertionError, match=r"exit code 3:\s+Traceback"):
        ended.number("lost")
    assert ended.left == []


@pytest.mark.parametrize(
    "count", [6, pytest.param(60, marks=slow), pytest.param(300, marks=[slow, many_seconds])]
)
def test_no_zombie_writes_what_is_no_longer_its_own(count: int, tmp_path: Path):
    ended = Ended(tmp_path, "zombie", "--count", str(count))

    assert ended.code == 0, ended.text
    assert ended.number("stopped") == count
    assert ended.number("stale writes accepted") == ended.number("duplicated") == 0
    assert ended.number("refused by their fence") > 0
    assert ended.left == []


@pytest.mark.parametrize(
    ("plant", "broken"), [("unfenced", "duplicated"), ("blind-writes", "stale writes accepted")]
)
def test_a_store_or_far_side_that_lets_zombies_write_is_found(plant: str, broken: str, tmp_path: Path):
    ended = Ended(tmp_path, "zombie", "--count", "12", "--plant", plant)

    assert ended.code == 1, ended.text
    assert ended.number(broken) > 0


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=slow)])
def test_a_kill_while_a_store_is_made_does_not_stand_in_the_way_of_the_next_worker(
    count: int, tmp_path: Path
):
    ended = Ended(tmp_path, "birth", "--count", str(count))

    assert ended.code == 0, ended.text
    assert ended.number("wedged") == 0


@pytest.mark.slow
def test_a_store_that_is_made_empty_first_is_found(tmp_path: Path):
    ended = Ended(tmp_path, "birth", "--count", "2", "--plant", "empty-first")

    assert ended.code == 1, ended.text
    assert ended.number("wedged") == 2


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=slow)])
def test_a_herd_has_one_winner(count: int, tmp_path: Path):
    ended = Ended(tmp_path, "herd", "--count", str(count))

    assert ended.code == 0, ended.text
    assert (ended.number("won"), ended.number("busy")) == (1, count - 1)


def test_workers_whose_clocks_are_hours_apart_do_nothing_twice_on_a_store_with_a_clock(tmp_path: Path):
    ended = Ended(tmp_path, "clock", "--count", "1")
    if ended.code == 2 and "needs libfaketime" in ended.errors:
        pytest.skip(ended.errors.strip())

    assert ended.code == 0, ended.text
    assert ended.number("duplicated") == ended.number("done") == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["durability"], "give --restart"),
        (["kill", "--store", "memory"], "not shared between processes"),
        (["zombie", "--store", "sqlit"], "names no store"),
        (["kill", "--kills", "5"], "joined has 25 crash points"),
        (["zombie", "--count", "0"], "give 1 or more"),
    ],
)
def test_what_cannot_be_done_is_answered_with_a_sentence(arguments: list[str], sentence: str, tmp_path: Path):
    ended = Ended(tmp_path, *arguments)

    assert ended.code == 2
    assert sentence in ended.errors
    assert "Traceback" not in ended.errors
    assert ended.left == []


def test_what_is_to_be_kept_is_kept(tmp_path: Path):
    ended = Ended(tmp_path, "zombie", "--count", "1", "--keep")

    [folder] = ended.left
    assert f"kept: {tmp_path / folder}" in ended.errors
    assert {"journal", "ledger.db"} <= set(os.listdir(tmp_path / folder))


def test_a_run_that_is_ended_takes_its_children_and_its_folder_along(tmp_path: Path):
    command = [sys.executable, "-m", "onefold.testing.torture", "kill", "--kills", "4000"]
    running = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True)
    wait_for(lambda: bool(list(tmp_path.glob("*/joined/ledger.db"))))

    running.terminate()

    assert running.wait(PATIENCE) == 128 + 15
    assert os.listdir(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
