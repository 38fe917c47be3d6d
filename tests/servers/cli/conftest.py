"""The fixtures of the command's tests, for findings about real servers."""

from tests.fast.cli.conftest import cli, here

__all__ = ["cli", "here"]
