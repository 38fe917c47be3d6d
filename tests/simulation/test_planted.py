"""Planted bugs: each still fits the code, each is found, and none without being planted."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from onefold.testing.sim import campaign
from onefold.testing.sim.bug import Bug, Edit
from onefold.testing.sim.checkers import PROMISES
from onefold.testing.sim.planted import BUGS, named
from onefold.testing.sim.planting import Misplanted, changed

QUICK = ["unknown-mapped-to-won", "in-doubt-auto-retried", "renewal-taken-for-begun"]
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


def hunted(name: str) -> dict[str, object]:
    return campaign.carry_out(campaign.Order("hunt", (name, "0", str(campaign.WITHIN))))


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name):
    assert hunted(name)["found"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [bug.name for bug in BUGS if bug.name not in QUICK])
def test_every_other_planted_bug_is_found(name):
    assert hunted(name)["found"]


def seen_by(name: str) -> set[str]:
    told = campaign.carry_out(campaign.Order("survey", (name, "0", "200")))
    return set(told["checkers"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nearly_every_checker_is_the_one_that_sees_some_planted_bug():
    with ThreadPoolExecutor(2) as pool:
        seen = set().union(*pool.map(seen_by, [bug.name for bug in BUGS]))

    # These wait for rarer turns of fate, and are held one by one in test_checkers.
    assert seen >= PROMISES.keys() - {"errors", "sink", "lost", "attempts"}


def test_planting_changes_modules_and_no_files():
    before = text_of("onefold.core.claims")
    script = (
        "from onefold.testing.sim.planted import named\n"
        "from onefold.testing.sim.planting import plant\n"
        "plant(named('in-doubt-auto-retried'))\n"
        "from onefold.core import claims\n"
        "print(claims._may_double.__code__.co_consts)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert "one-shot" not in told
    assert text_of("onefold.core.claims") == before
