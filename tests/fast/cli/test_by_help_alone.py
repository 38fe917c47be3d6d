"""Somebody who has only `--help` finds, understands and settles a parked effect.

Each step uses nothing but words that the step before it printed; the test fails if they are not there.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from onefold.cli.codes import Code
from tests.fast.cli.shop import open_shop, outside
from tests.fast.cli.stage import Cli

pytestmark = pytest.mark.store("sqlite")


def described(help_text: str) -> dict[str, str]:
    """Read the commands and what is said of each."""
    listed = help_text.partition("Commands:\n")[2]
    return dict(re.findall(r"^  (\w+) +(\S.*)$", listed, re.M))


def quoted(text: str) -> list[str]:
    """Read the commands that a text proposes."""
    return re.findall(r"`(onefold [^`]+)`", text)


@pytest.mark.parametrize(("found_out", "then"), [("--happened", {}), ("--did-not-happen", {"d1": 1})])
def test_a_parked_effect_is_found_understood_and_settled_by_the_words_of_the_help(
    here: Path, cli: Cli, found_out: str, then: dict[str, int]
):
    def onefold(written: str, *more: str) -> tuple[int, str]:
        result = cli(*shlex.split(written)[1:], *more)
        return result.exit_code, result.output

    open_shop(here, {"id": "d1", "at": 1, "trouble": "doubt"})
    assert cli("run", "prices", "--once").exit_code == Code.PERSON

    # The help says that 3 needs a person, and which command says what does.
    _, help_text = onefold("onefold --help")
    assert "3 needs a person" in help_text
    [look] = [name for name, what in described(help_text).items() if "what needs a person" in what]

    # That command names the next one, which lists what is parked.
    code, status = onefold(f"onefold {look}")
    [listing] = [words for words in quoted(status) if "--parked" in words]
    assert code == Code.PERSON
    _, listed = onefold(listing)
    [key] = re.findall(r"^parked .* (\S+)/(\S+)$", listed, re.M)

    # The help has one command that tells the story of a key.
    [story] = [name for name, what in described(help_text).items() if "story of one key" in what]
    code, told = onefold(f"onefold {story} {' '.join(key)}")
    assert code == Code.PERSON
    assert "it may have happened, and running it again could double it" in told
    assert "TimeoutError: no answer" in told

    # The story names the commands that can follow; one of them is what was found out.
    [decision] = re.findall(rf"^  (onefold .*{found_out}.*)$", told, re.M)
    code, answer = onefold(decision, "-y")
    assert code == Code.FINE, answer

    # Afterwards nothing is parked; what did not happen is done by the next run, what did is left alone.
    assert onefold(f"onefold {look}")[0] == Code.FINE
    (here / "feed.jsonl").write_text('{"id": "d1", "at": 1}\n')
    (here / "prices.py").write_text((here / "prices.py").read_text().replace('"doubt"', '"mended"'))
    assert cli("run", "prices:live", "--once").exit_code == Code.FINE
    assert outside(here) == then
