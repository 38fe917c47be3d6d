"""The command line of the simulation: `./dev sim 10000`, `./dev sim --seed 17`, `./dev sim --list`.

`./dev sim apps ...` is the one of applications, in `proof.apps`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from proof.sim import campaign
from proof.sim.planted import BUGS, named
from proof.sim.planting import plant

HISTORIES = 10_000
SHOWN = 3
"""How many broken histories are shown; the others look much the same."""


def main(args: Sequence[str]) -> int:
    """Do what the arguments ask for; 0 if every promise was kept and every planted bug was found."""
    if args and args[0] == "apps":
        from proof.apps.command import main as of_apps

        return of_apps(args[1:])
    options = _parser().parse_args(args)
    if options.list:
        return _list()
    if options.seed is not None:
        return (
            _replay_workers(options.seed, options.plant)
            if options.workers
            else _replay(options.seed, options.plant)
        )
    if options.plant is not None:
        return _hunt(options.plant)
    return _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev sim", description="Simulate workers, faults and clocks.")
    parser.add_argument(
        "histories", nargs="?", type=int, default=HISTORIES, help="how many to live through (10000)"
    )
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first seed (0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many processes"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="live through one history and show all of it")
    parser.add_argument(
        "--plant", metavar="NAME", help="with a bug in it; without --seed, find a history that shows it"
    )
    parser.add_argument("--workers", action="store_true", help="with --seed: a history of workers")
    parser.add_argument("--list", action="store_true", help="name the bugs that can be planted")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run(options: argparse.Namespace) -> int:
    account = campaign.run(options.start, options.histories, max(options.jobs, 1), _say)
    for broken in account.broken[:SHOWN]:
        if broken.get("of") == "worker":
            _say(_told_of_workers(broken["seed"], None) + "\n")
        else:
            _say(_trace().failure(_live(broken["seed"])) + "\n")
    for missed in account.missed:
        _say(f"planted bug {missed}")
    _say(account.closing())
    return 0 if account.is_fine else 1


def _list() -> int:
    for bug in BUGS:
        _say(f"{bug.name}\n    {bug.sentence}")
    return 0


def _replay(seed: int, bug: str | None) -> int:
    if bug is not None:
        plant(_known(bug))
    world, again = _live(seed), _live(seed)
    _say(_trace().told(world))
    first, second = _trace().digest(world), _trace().digest(again)
    _say(
        f"digest {first}" + (", the same twice" if first == second else f", and then {second}: not the same")
    )
    return 1 if world.violations or first != second else 0


def _replay_workers(seed: int, bug: str | None) -> int:
    if bug is not None:
        plant(_known(bug))
    _say(_told_of_workers(seed, bug))
    return 1 if import_module("proof.sim.working").live(seed).violations else 0


def _told_of_workers(seed: int, bug: str | None) -> str:
    """Tell a history of workers: what happened, and which promises were broken."""
    logging.disable()
    tiles = bug is not None and named(bug).history == "tiles"
    home = "proof.sim.covering" if tiles else "proof.sim.working"
    town = import_module(home).live(seed, tracing=True)
    again = f"./dev sim --workers --seed {seed}" + (f" --plant {bug}" if bug else "")
    broken = [str(one) for one in town.violations] or ["every promise was kept"]
    return "\n".join([f"seed {seed} of workers:", *town.lines, "", *broken, f"again: {again}"])


def _hunt(name: str) -> int:
    told = campaign.carry_out(campaign.Order("hunt", (_known(name).name, "0", str(campaign.WITHIN))))
    if not told["found"]:
        _say(told.get("error") or f"{name}: not found in {campaign.WITHIN} histories")
        return 1
    seed = told["found"]["seed"]
    plant(named(name))
    if named(name).history != "ledger":
        _say(_told_of_workers(seed, name))
        return 0
    _say(_trace().failure(_live(seed), name))
    return 0


def _known(name: str) -> Any:
    try:
        return named(name)
    except LookupError as error:
        raise SystemExit(f"./dev sim: {error.args[0]}") from None


# Everything below is imported late: a bug has to be planted before.


def _trace() -> Any:
    return import_module("proof.sim.trace")


def _live(seed: int) -> Any:
    return import_module("proof.sim.history").live(seed, tracing=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
