"""Kill and stop real workers, and print the account.

Exit code 0: every promise was kept. 1: a promise was broken, and the account says which. 2: the arguments are
wrong or something is missing. 3: the torture itself failed, and there is no account.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

from onefold.core.entry import EFFECTS
from onefold.core.errors import Misconfigured
from onefold.testing.torture import births, clocks, durability, herds, kills, losses, storms, zombies
from onefold.testing.torture.places import place, place_alone
from onefold.testing.torture.worker import PLANTS, Site

ORDER = ("before", "inside", "after")

SHOWN = 10
"""Findings of one run that are printed in full."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and return the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    gc.freeze()  # forked workers then share what was loaded here
    try:
        options.server = _server(options)
        with _folder(options.keep) as folder:
            return int(options.run(options, folder))
    except Misconfigured as error:
        _say(f"torture: {error}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception:
        # Python would exit with 1, which is the verdict that a promise was broken.
        traceback.print_exc()
        return 3


def _server(options: argparse.Namespace) -> str:
    """Say where the server of a store is; a store that has none needs none."""
    if not options.place(options.store).on_server:
        return ""
    variable = f"{options.store.upper()}_URL"
    url: str = options.url or os.environ.get(variable, "")
    if not url:
        raise Misconfigured(
            f"the store {options.store} needs a server: give --url or ${variable}; ./dev torture starts one"
        )
    return url


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev torture", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verb = verbs.add_parser("kill", help="kill workers at every crash point and at random moments")
    verb.set_defaults(run=_kill)
    verb.add_argument("--kills", type=int, default=400, help="kills for each effect class (400)")
    verb.add_argument("--effect", choices=EFFECTS, help="only this effect class; all four without it")
    verb.add_argument("--server-kills", type=int, default=0, metavar="N", help="kill the server, too (0)")
    verb.add_argument("--restart", metavar="COMMAND", help="kills the server and ends when it is back")
    verb.add_argument(
        "--plant", choices=PLANTS, default="none", help="let the worker be wrong, to see it found"
    )
    _common(verb)
    verb = verbs.add_parser("zombie", help="stop workers past their lease, let others act, and wake them")
    verb.set_defaults(run=_zombie)
    verb.add_argument("--count", type=_positive, default=60, help="how many to stop (60)")
    verb.add_argument(
        "--plant", choices=zombies.PLANTS, default="none", help="let something be wrong, to see it found"
    )
    _common(verb)
    verb = verbs.add_parser("reply-loss", help="cut the cable to a server, and compare what was told with it")
    verb.set_defaults(run=_reply_loss)
    verb.add_argument("--count", type=_positive, default=500, help="how often to cut (500)")
    verb.add_argument(
        "--plant", choices=losses.PLANTS, default="none", help="let the client be wrong, to see it found"
    )
    _common(verb)
    verb = verbs.add_parser("birth", help="kill workers while they make a new store")
    verb.set_defaults(run=_birth)
    verb.add_argument("--count", type=_positive, default=100, help="how many stores to make (100)")
    verb.add_argument(
        "--plant", choices=births.PLANTS, default="none", help="make them wrongly, to see it found"
    )
    _common(verb)
    verb = verbs.add_parser(
        "storm", help="interrupt a process by signals at any moment while it uses a ledger"
    )
    verb.add_argument("--calls", type=_positive, default=2000, help="how many calls to make (2000)")
    _common(verb)
    verb.set_defaults(run=_storm, plant="none", place=place_alone)
    verb = verbs.add_parser("herd", help="let thousands claim one key at the same moment (reported)")
    verb.set_defaults(run=_herd, plant="none")
    verb.add_argument("--count", type=_positive, default=10_000, help="how many claimants (10000)")
    verb.add_argument("--connections", type=_positive, default=16, help="over how many connections (16)")
    _common(verb)
    verb = verbs.add_parser(
        "durability", help="kill the server and count what it lost, per setting (reported)"
    )
    verb.set_defaults(run=_durability, plant="none")
    verb.add_argument("--kills", type=_positive, default=5, help="kills for each setting (5)")
    verb.add_argument("--restart", metavar="COMMAND", help="kills the server and ends when it is back")
    _common(verb)
    verb = verbs.add_parser("clock", help="let workers contend whose clocks are hours apart (reported)")
    verb.set_defaults(run=_clock, plant="none")
    verb.add_argument("--count", type=_positive, default=5, help="how many keys (5)")
    _common(verb)
    return parser


def _common(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(place=place)
    verb.add_argument("--store", default="sqlite", help="the store, by its scheme (sqlite)")
    verb.add_argument("--url", help="where the store's server is, if it has one")
    verb.add_argument("--seed", type=int, default=1, help="what the plan is drawn from (1)")
    verb.add_argument("--keep", action="store_true", help="leave ledger and journal behind, and say where")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few: give 1 or more")
    return number


def _kill(options: argparse.Namespace, folder: Path) -> int:
    effects = [options.effect] if options.effect else EFFECTS
    disturbed = options.server_kills > 0
    if disturbed and not options.restart:
        raise Misconfigured("--server-kills needs --restart COMMAND; ./dev torture gives one")
    sites = [
        Site(options.store, folder / effect, effect, options.plant, options.server, disturbed)
        for effect in effects
        if effect != "joined" or place(options.store).callers
    ]
    for site in sites:
        # None at all makes sense where only the server is killed.
        if options.kills < (needed := kills.points_needed(site)) and (options.kills or not disturbed):
            raise Misconfigured(
                f"--kills {options.kills} is too few: {site.effect} has {needed} crash points"
            )
    return max([_kill_one(options, site) for site in sites])


def _kill_one(options: argparse.Namespace, site: Site) -> int:
    site.folder.mkdir()
    shots = kills.Shots(options.kills, options.server_kills, partial(_restart, options.restart))
    with _progress(f"{site.effect}: kill", options.kills) as progress:
        toll = kills.kill(site, shots, options.seed, progress)
    for step, hits in _by_step(toll.hits):
        _say(f"  {step:<20}{hits}")
    _say(f"  {'at random moments':<20}{toll.at_random}")
    found = toll.account
    for reason, times in found.repeats.items():
        _say(f"  {'repeated after':<20}{reason} {times}")
    if not found.holds:
        _list({"duplicated": found.duplicated, "lost": found.lost, "unexplained": found.unexplained})
    servers = f"{toll.servers} server kills, " if toll.servers else ""
    _say(f"{site.effect}: {toll.kills} kills, {servers}{toll.keys} keys: {found}")
    servers = f" --server-kills {options.server_kills}" if options.server_kills else ""
    return _judged(found.holds, f"kill --effect {site.effect} --kills {options.kills}{servers}", options)


def _restart(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


def _zombie(options: argparse.Namespace, folder: Path) -> int:
    with _progress("zombie", options.count) as progress:
        found = zombies.zombies(
            zombies.Grave(options.store, folder, options.plant, options.server),
            options.count,
            options.seed,
            progress,
        )
    _list({"stale write accepted": found.stale, "duplicated": found.duplicated, "lost": found.lost})
    _list({"unexplained": found.unexplained})
    _say(f"zombie: {found}")
    return _judged(found.holds, f"zombie --count {options.count}", options)


def _reply_loss(options: argparse.Namespace, folder: Path) -> int:
    if not options.server:
        raise Misconfigured(f"the store {options.store} has no server, so there is no cable to be cut")
    ground = losses.Ground(options.store, place(options.store).url(options.server, folder), options.plant)
    with _progress("reply-loss", options.count) as progress:
        found = losses.losses(ground, options.count, options.seed, progress)
    for deed, told in found.by_deed().items():
        _say(f"  {deed:<24}" + ", ".join(f"{word} {times}" for word, times in sorted(told.items())))
    _list({"misclassified": found.misclassified})
    _say(f"reply-loss: {found}")
    holds = not found.misclassified and found.cut == options.count
    return _judged(holds, f"reply-loss --count {options.count}", options)


def _birth(options: argparse.Namespace, folder: Path) -> int:
    with _progress("birth", options.count) as progress:
        site = Site(options.store, folder, "idempotent", server=options.server)
        found = births.births(site, options.plant, options.count, options.seed, progress)
    _list({"wedged": found.wedged})
    _say(f"birth: {found}")
    return _judged(not found.wedged, f"birth --count {options.count}", options)


def _storm(options: argparse.Namespace, folder: Path) -> int:
    with _progress("storm", options.calls) as progress:
        found = storms.storm(options.store, options.server, folder, options.calls, options.seed, progress)
    _list({"duplicated": found.duplicated, "done without running": found.unfounded})
    _list({"unexplained": found.unexplained})
    _say(f"storm: {found}")
    return _judged(found.holds, f"storm --calls {options.calls}", options)


def _herd(options: argparse.Namespace, folder: Path) -> int:
    url = place(options.store).url(options.server, folder)
    found = herds.herd(options.store, url, options.count, options.connections)
    _say(f"herd: {found}")
    return _judged(found.holds, f"herd --count {options.count}", options)


def _durability(options: argparse.Namespace, folder: Path) -> int:
    if not options.server or not options.restart:
        raise Misconfigured("a server has to be killed: give --restart COMMAND; ./dev torture gives one")
    url = place(options.store).url(options.server, folder)
    with _progress("durability", options.kills) as progress:
        restart = partial(_restart, options.restart)
        found = durability.durability(options.store, url, options.kills, restart, progress)
    for setting in found:
        _say(f"durability: {setting}")
    return 0


def _clock(options: argparse.Namespace, folder: Path) -> int:
    found = clocks.clocks(
        options.store, place(options.store).url(options.server, folder), folder, options.count
    )
    _say(f"clock: {found}")
    return 0


def _list(findings: Mapping[str, Sequence[object]]) -> None:
    for what, found in findings.items():
        for one in found[:SHOWN]:
            _say(f"  {what}: {f'key {one}' if isinstance(one, int) else one}")
        if len(found) > SHOWN:
            _say(f"  {what}: and {len(found) - SHOWN} more")


def _judged(holds: bool, command: str, options: argparse.Namespace) -> int:
    if holds:
        return 0
    plant = "" if options.plant == "none" else f" --plant {options.plant}"
    _say(f"  again: ./dev torture {command} --store {options.store} --seed {options.seed}{plant}")
    return 1


def _by_step(hits: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Put the points of one step on one line, in the order in which they are passed."""
    for step in dict.fromkeys(point.partition(": ")[0] for point in hits):
        here = [point.partition(": ")[2] for point in hits if point.startswith(f"{step}: ")]
        ordered = sorted(here, key=lambda when: (when.partition(" ")[2], ORDER.index(when.partition(" ")[0])))
        yield step, ", ".join(f"{when} {hits[f'{step}: {when}']}" for when in ordered)


# ----- the terminal and the folder


@contextmanager
def _progress(what: str, total: int) -> Iterator[kills.Progress]:
    """Count on a terminal; elsewhere say nothing."""
    shown = sys.stderr.isatty()

    def count(done: int) -> None:
        if shown:
            sys.stderr.write(f"\r{what} {done} of {total} ")
            sys.stderr.flush()

    try:
        yield count
    finally:
        if shown:
            sys.stderr.write("\r\033[K")


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="onefold-torture-"))
    try:
        yield folder
    finally:
        if keep:
            _say(f"kept: {folder}", sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _say(text: str, file: TextIO = sys.stdout) -> None:
    file.write(text + "\n")
    file.flush()


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
