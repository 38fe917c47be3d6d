"""The shell completes commands and options: in a real bash, and by what zsh and fish ask for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent


def asked(**variables: str) -> str:
    """Run `onefold` as a shell's completion function does, and return what it prints."""
    command = [str(PROGRAMS / "onefold")]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("onefold st", ["status", "store"]),
        ("onefold settings ", ["get", "put"]),
        ("onefold list --par", ["--parked"]),
    ],
)
def test_bash_completes_commands_and_options(typed: str, completions: list[str]):
    # `onefold` must be found by its name, as in the shell of a user.
    script = f"""
        PATH={PROGRAMS}:$PATH
        eval "$(_ONEFOLD_COMPLETE=bash_source onefold)"
        complete -p onefold >&2
        typed={typed!r}
        read -ra COMP_WORDS <<< "$typed"
        [[ $typed == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _onefold_completion onefold
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert "_onefold_completion" in done.stderr
    assert done.stdout.split() == completions


@pytest.mark.parametrize(
    ("shell", "begins", "cursor"),
    [
        ("bash", "_onefold_completion()", "1"),
        ("zsh", "#compdef onefold", "1"),
        ("fish", "function _onefold_completion", "st"),
    ],
)
def test_every_shell_gets_a_script_and_completions(shell: str, begins: str, cursor: str):
    script = asked(_ONEFOLD_COMPLETE=f"{shell}_source")
    completed = asked(_ONEFOLD_COMPLETE=f"{shell}_complete", COMP_WORDS="onefold st", COMP_CWORD=cursor)

    assert script.startswith(begins)
    assert "status" in completed
    assert "run" not in completed
