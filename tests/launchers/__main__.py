"""Says which servers run here, and runs a command beside some of them; it is `./dev servers`.

Every server named is really started: its version is what it said itself. A missing one is listed with the
reason; where CI=true it makes the exit code 1.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import apsw

from tests.launchers.recipes import RECIPES
from tests.launchers.server import Missing, NotReady, running
from tests.stores_tested import STORES, has_landed

BUILT_IN = {"memory": "-", "sqlite": apsw.sqlite_lib_version()}


def main(args: Sequence[str]) -> int:
    own, command = divided(args)
    parser = argparse.ArgumentParser(
        prog="./dev servers",
        epilog="With -- COMMAND, start the servers, run COMMAND with <NAME>_URL set for each, and end them.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(RECIPES)} (all)")
    parser.add_argument("--install", action="store_true", help="install what is missing into .servers")
    options = parser.parse_args(own)
    if unknown := set(options.names) - RECIPES.keys():
        parser.error(f"there is no server {', '.join(sorted(unknown))}; they are {', '.join(RECIPES)}")
    if options.install:
        os.environ["ONEFOLD_INSTALL_SERVERS"] = "1"
    if command:
        return beside(options.names or list(RECIPES), command)
    return listed(options.names or [*BUILT_IN, *RECIPES])


def divided(args: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split arguments at the first `--`; argparse would let it go by."""
    if "--" not in args:
        return args, ()
    at = list(args).index("--")
    return args[:at], args[at + 1 :]


def listed(names: Sequence[str]) -> int:
    missing = 0
    for name in names:
        try:
            words = "  ".join(columns(name))
        except (Missing, NotReady) as error:
            words = f"missing: {error}"
            missing += 1
        print(f"{name:<12}{words}{note(name)}", flush=True)
    return 1 if missing and os.environ.get("CI") == "true" else 0


def note(name: str) -> str:
    if name not in STORES:
        return " (no store)"
    return "" if has_landed(name) else " (its store has not landed)"


def columns(name: str) -> Iterator[str]:
    if name in BUILT_IN:
        yield from (f"{BUILT_IN[name]:<16}", "built in")
        return
    with running(RECIPES[name]) as server:
        yield from (f"{server.version:<16}", f"ready in {server.ready_in:5.2f} s", server.origin)


def beside(names: Sequence[str], command: Sequence[str]) -> int:
    with ExitStack() as stack:
        urls = {}
        for name in names:
            try:
                urls[f"{name.upper()}_URL"] = stack.enter_context(running(RECIPES[name])).url
            except (Missing, NotReady) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
        return subprocess.run(command, env={**os.environ, **urls}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
