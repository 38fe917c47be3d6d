"""A real bash completes commands and options. What other shells ask for is tested in tests/fast/cli."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent

# `onefold` must be found by its name, as in the shell of a user.
COMPLETES = f"""
    PATH={PROGRAMS}:$PATH
    eval "$(_ONEFOLD_COMPLETE=bash_source onefold)"
    complete -p onefold >&2
    for typed in "$@"; do
        read -ra COMP_WORDS <<< "$typed"
        [[ $typed == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        COMPREPLY=()  # as the shell does
        _onefold_completion onefold
        printf '%s ' "${{COMPREPLY[@]}}"
        echo
    done
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_and_options():
    typed = ["onefold st", "onefold settings ", "onefold list --par"]

    done = subprocess.run(
        ["bash", "-c", COMPLETES, "bash", *typed], capture_output=True, text=True, check=True
    )

    assert "_onefold_completion" in done.stderr
    completions = [line.split() for line in done.stdout.splitlines()]
    assert completions == [["status", "store"], ["get", "put"], ["--parked"]]
