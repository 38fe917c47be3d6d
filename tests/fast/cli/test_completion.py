"""zsh and fish get a script that completes commands, and the completions for which that script asks.

A real bash completes in tests/processes/cli.
"""

import pytest

from tests.fast.cli.stage import Cli


@pytest.mark.parametrize(
    ("shell", "begins", "cursor"),
    [
        ("zsh", "#compdef onefold", "1"),
        ("fish", "function _onefold_completion", "st"),
    ],
)
def test_every_shell_gets_a_script_and_completions(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, shell: str, begins: str, cursor: str
):
    monkeypatch.setenv("COMP_WORDS", "onefold st")
    monkeypatch.setenv("COMP_CWORD", cursor)

    monkeypatch.setenv("_ONEFOLD_COMPLETE", f"{shell}_source")
    script = cli().stdout
    monkeypatch.setenv("_ONEFOLD_COMPLETE", f"{shell}_complete")
    completed = cli().stdout

    assert script.startswith(begins)
    assert "status" in completed
    assert "run" not in completed
