"""The command line: `./dev sim apps 1000`, `./dev sim apps --seed 17`, `./dev sim apps --list`.

It starts the parts of a run in processes of their own, adds them up, and shows what broke.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from proof.apps.parts import app_of, bug_named, bugs
from proof.sim.bug import Bug
from proof.sim.campaign import Order, carry_out
from proof.sim.planting import plant

HISTORIES = 1000
SHOWN = 3
"""How many broken histories are shown."""
TAIL = 60
"""How many lines of a trace are shown with a failure."""
WITHIN = 400
"""How many histories of its application a planted bug may hide in."""
LARGEST = 500
"""How many histories one process lives through: it reports when it is through."""


def main(args: Sequence[str]) -> int:
    """Do what the arguments ask for; 0 if every promise was kept and every planted bug was found."""
    options = _parser().parse_args(args)
    if options.list:
        return _list()
    if options.seed is not None:
        return _replay(options.seed, options.plant)
    if options.plant is not None:
        return _hunt(options.plant)
    return _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev sim apps",
        description="Run whole applications in simulated time.",
    )
    parser.add_argument(
        "histories", nargs="?", type=int, default=HISTORIES, help="how many to live through (1000)"
    )
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first seed (0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many processes"
    )
    parser.add_argument("--no-hunt", action="store_true", help="hunt no planted bugs")
    parser.add_argument("--seed", type=int, metavar="N", help="live through one history and show all of it")
    parser.add_argument(
        "--plant", metavar="NAME", help="with a bug in it; without --seed, find a history that shows it"
    )
    parser.add_argument("--list", action="store_true", help="name the bugs that can be planted")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _list() -> int:
    for bug in bugs():
        _say(f"{bug.name} ({bug.history})\n    {bug.sentence}")
    return 0


# ----- one history


def _replay(seed: int, name: str | None) -> int:
    if name is not None:
        plant(_known(name))
    first, second = _lived(seed), _lived(seed)
    _say("\n".join([*first.lines, "", *_verdict(first, seed, name)]))
    same = first.digest == second.digest
    _say(f"digest {first.digest}" + (", the same twice" if same else f", and then {second.digest}"))
    return 1 if first.violations or not same else 0


def _lived(seed: int) -> Any:
    from proof.apps.parts import live  # late: a bug has to be planted before

    logging.disable()
    return live(seed, tracing=True)


def _verdict(history: Any, seed: int, name: str | None) -> Iterator[str]:
    yield f"seed {seed}, {app_of(seed)}: " + (
        f"{len(history.violations)} promises were broken" if history.violations else "every promise was kept"
    )
    yield from (f"  {one}" for one in history.violations)
    yield f"again: ./dev sim apps --seed {seed}" + (f" --plant {name}" if name else "")


def _hunt(name: str) -> int:
    told = carry_out(_hunting(_known(name)))
    if not told["found"]:
        _say(told.get("error") or f"{name}: not found in {WITHIN} histories")
        return 1
    return 0 if _replay(told["found"]["seed"], name) else 1


def _known(name: str) -> Bug:
    try:
        return bug_named(name)
    except LookupError as error:
        raise SystemExit(f"./dev sim apps: {error.args[0]}") from None


# ----- many


def _hunting(bug: Bug) -> Order:
    return Order("hunt", (bug.name, str(WITHIN)), "proof.apps.stint")


def _walking(start: int, histories: int, jobs: int) -> Iterator[Order]:
    chunk = min(max(-(-histories // (2 * jobs)), 1), LARGEST)
    for first in range(start, start + histories, chunk):
        count = min(chunk, start + histories - first)
        yield Order("walk", (str(first), str(count)), "proof.apps.stint")


def _run(options: argparse.Namespace) -> int:
    jobs, hunted = max(options.jobs, 1), [] if options.no_hunt else bugs()
    began = time.monotonic()
    lived = violations = 0
    broken: list[dict[str, Any]] = []
    missed: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        walks = list(_walking(options.start, options.histories, jobs))
        for done in as_completed([pool.submit(carry_out, order) for order in walks]):
            told = done.result()
            lived, violations = lived + told["histories"], violations + told["violations"]
            broken += told["broken"]
        walked = time.monotonic() - began
        for done in as_completed([pool.submit(carry_out, _hunting(bug)) for bug in hunted]):
            told = done.result()
            if not told["found"]:
                missed.append(told.get("error") or f"{told['bug']}: not found in {WITHIN} histories")
    for one in sorted(broken, key=lambda one: int(one["seed"]))[:SHOWN]:
        history = _lived(one["seed"])
        _say("\n".join([*history.lines[-TAIL:], "", *_verdict(history, one["seed"], None), ""]))
    for sentence in sorted(missed):
        _say(f"planted bug {sentence}")
    found, last = len(hunted) - len(missed), options.start + options.histories - 1
    _say(
        f"{lived} histories of applications in {walked:.1f} s, {violations} violations, "
        f"{found}/{len(hunted)} planted bugs found, seeds {options.start}..{last}, "
        f"{time.monotonic() - began:.1f} s in all"
    )
    return 0 if not violations and not missed and lived == options.histories else 1
