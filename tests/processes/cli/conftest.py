"""Where these tests happen: as the fast tests of the command do, in an empty folder without settings."""

from tests.fast.cli.conftest import book as book
from tests.fast.cli.conftest import cli as cli
from tests.fast.cli.conftest import here as here
