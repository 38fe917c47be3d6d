"""What README.md and docs/start.md show works: their commands are run as processes, by a shell.

The other pages are run in tests/fast/docs, where commands run in the process of the test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fast.docs.runner import Broken, Ended, run_page
from tests.fast.docs.test_snippets import FIRST, elsewhere, name, page

__all__ = ["elsewhere"]


def in_shell(command: str) -> Ended:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("first", FIRST, ids=name)
@pytest.mark.usefixtures("elsewhere")
def test_what_a_first_page_shows_works(first: Path):
    run_page(name(first), first.read_text("utf-8"), in_shell)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("onefold no-such-command", "instead of 0: onefold no-such-command"),
        ("onefold-not-there  # exit 77", "exit code 127 instead of 77"),
    ],
)
def test_a_command_that_ends_otherwise_than_shown_is_found(command: str, complaint: str):
    with pytest.raises(Broken, match=complaint):
        run_page("page.md", page(("console", f"$ {command}")), in_shell)
