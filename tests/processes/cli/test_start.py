"""Commands start at once: what they do not use is not imported. Modules are counted, not seconds."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from onefold import Key, Ledger
from onefold.cli import main
from tests.fast.cli.stage import done
from tests.processes.cli.stage import process

pytestmark = pytest.mark.store("sqlite")

HEAVY = {"rich", "asyncio", "anyio", "onefold.ledger", "importlib.resources", "logging"}


def imported(*words: str) -> set[str]:
    """Run the command and return which modules it had imported when it ended."""
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr));"
        "from onefold.cli import main; sys.exit(main())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stderr.splitlines())


@pytest.mark.parametrize(
    "words",
    [
        ["version"],
        ["version", "--json"],
        ["status", "--json"],
        ["status"],
        ["list"],
        ["why", "charges", "1"],
        ["cursors"],
        ["sources", "--json"],
        ["coverage"],
        ["settings", "get"],
    ],
)
def test_a_command_that_reads_imports_nothing_heavy(book: Ledger, words: list[str]):
    done(book, Key("charges", 1))

    modules = imported(*words)

    assert "onefold.cli.root" in modules
    assert modules & HEAVY == set()


def test_a_module_that_is_imported_would_be_seen(book: Ledger):
    done(book, Key("charges", 1))

    assert "onefold.stores.sqlite.file" in imported("status")
    assert "onefold.stores.sqlite.file" not in imported("version")


def test_the_package_runs_as_a_module_and_as_a_program():
    [program] = entry_points(group="console_scripts", name="onefold")

    assert process("version").stdout.startswith("onefold ")
    assert program.load() is main


def test_the_names_of_the_package_are_loaded_when_they_are_used():
    program = (
        "import sys, onefold; assert 'onefold.ledger' not in sys.modules; onefold.Ledger;"
        "assert 'onefold.ledger' in sys.modules; assert 'Ledger' in dir(onefold);"
        "from onefold import *; Key, Terms, current_claim\n"
        "try: onefold.Legder\n"
        "except AttributeError as error: print(error)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout == "module 'onefold' has no attribute 'Legder'\n"
