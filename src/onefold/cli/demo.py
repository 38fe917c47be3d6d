"""`onefold demo`: all applications against stand-ins of the outside, with workers killed on the way.

The one command that may load stand-ins, and only when it is called.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.frame import Command, asked
from onefold.cli.problems import Facts, Problem
from onefold.cli.talk import data, emit, say

NEEDED = {"worker": ("httpx2", "websockets"), "copytrade": ("eth_abi", "eth_hash", "Crypto")}
"""The packages that the demo imports beyond the ledger's own, by the extra that installs them."""


@click.command("demo", cls=Command)
@click.option(
    "--seconds", type=click.FloatRange(5, 3600), default=45.0, help="How long the trouble lasts (45)."
)
@click.option("--seed", type=int, default=1, help="What the worlds and the kills are drawn from (1).")
@click.option(
    "--keep", is_flag=True, help="Leave the store behind, and say where, for status, why and coverage."
)
@click.option(
    "--app", "apps", multiple=True, metavar="NAME", help="Only this application; may be given again."
)
def demo(seconds: float, seed: int, keep: bool, apps: tuple[str, ...]) -> int:
    """Watch the applications survive duplicates, crashes and cut connections.

    Everything runs on this machine: the outside is played by stand-ins that repeat, reorder, delay,
    cut and lie, and keep their own journals. Workers are killed with SIGKILL and started again.
    The account is counted from the journals; beside it stands a naive worker on the same events.

    \b
    Example:
        onefold demo --seconds 8
    """
    from onefold.worlds.demo.parts import PARTS, made

    for name in apps:
        if name not in PARTS:
            raise click.UsageError(f"there is no {name} in the demo: {', '.join(PARTS)} are")
    # Checked here, because a worker that lacks a package would fail in a process of its own.
    _check_packages("copytrade" if not apps or "copytrade" in apps else "worker")
    from onefold.worlds.demo.frame import Demo

    folder = Path(tempfile.mkdtemp(prefix="onefold-demo-"))
    json = asked().json
    try:
        with _view(json) as (tell, watch):
            result = Demo(made(apps), folder, seed, tell, watch).run(seconds)
    finally:
        if keep:
            say(f"kept: {folder}; look at it with: cd {folder} && onefold status")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report(result, json)


def report(result: Any, json: bool) -> Code:
    """Print the account of a demo, and say with which code the command ends."""
    from onefold.worlds.demo.frame import table

    if json:
        emit(result.as_json())
    else:
        data("", *table(result), "", _closing(result.kills, result.between, result.adds_up))
    return Code.FINE if result.adds_up else Code.FAILED


def _check_packages(extra: str) -> None:
    """Refuse to start without the packages of an extra; the extra copytrade includes the extra worker."""
    needed = NEEDED["worker"] + (NEEDED["copytrade"] if extra == "copytrade" else ())
    missing = [name for name in needed if not _is_installed(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        what = f"the demo needs {', '.join(missing)}, which {verb} not installed"
        raise Problem(Code.USAGE, Facts(what, steps=(f'pip install "onefold[{extra}]"',)))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # an import hook, or a module that stands in sys.modules without a spec
        return False


def _closing(kills: int, between: int, adds_up: bool) -> str:
    verdict = "The account adds up." if adds_up else "THE ACCOUNT DOES NOT ADD UP."
    return f"{kills} workers killed, {between} of them between claim and settle. {verdict}"


@contextmanager
def _view(json: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Any], None]]]:
    """Show a run as it goes: a live table on a terminal, lines elsewhere, nothing beside JSON."""
    if json or not sys.stderr.isatty():
        yield (_quiet if json else _tell), _quiet
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield _quiet, lambda look: live.update(_drawn(look))


def _drawn(look: Any) -> Any:
    from rich.table import Table

    title = f"{look.share:.0%}, {look.kills} workers killed, {look.between} between claim and settle"
    drawn = Table(title=title, title_justify="left")
    for heading in ("", "to do", "done", "twice", "naive: done", "twice"):
        drawn.add_column(heading, justify="right" if heading else "left")
    for one in look.glances:
        drawn.add_row(*map(str, one))
    return drawn


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _quiet(_: object) -> None:
    """Say nothing: a live table shows it, or JSON stands alone."""
