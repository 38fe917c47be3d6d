"""A server that cannot be reached: the clients of stores connect with sockets of their own."""

import pytest

from onefold.cli.codes import Code
from tests.fast.cli.stage import Cli
from tests.fast.cli.test_errors import COMMANDS, OPTIONS


@pytest.mark.parametrize(
    "url", ["postgresql://ann:hunter2@127.0.0.1:1/app", "redis://:hunter2@127.0.0.1:1/0"]
)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("words", COMMANDS)
def test_no_secret_of_a_server_that_does_not_answer_is_printed(
    cli: Cli, url: str, options: list[str], words: list[str]
):
    result = cli(*words, *options, "--store", url)

    asks_nobody = words == ["store", "sql"]
    assert result.exit_code == (Code.FINE if asks_nobody else Code.UNREACHABLE)
    assert "hunter2" not in result.output
