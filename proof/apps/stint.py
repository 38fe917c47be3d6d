"""One part of a run, in a process of its own: a range of seeds, or the hunt for one planted bug.

It prints one line of JSON. A bug is planted before anything is imported that it could be planted into.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from proof.apps.parts import bug_named, seeds_of
from proof.sim.bug import Misplanted
from proof.sim.planting import plant

MOST = 20
"""How many broken histories are told of; the rest is only counted."""

Found = dict[str, Any]


def lived(seeds: Iterable[int]) -> Iterator[Found]:
    """Live through histories; tell of each that broke a promise."""
    from proof.apps.parts import live  # after the planting, which forgets every module of ours

    logging.disable()  # workers complain of every fault, and there are many
    for seed in seeds:
        history = live(seed)
        if history.violations:
            yield {"seed": seed, "text": str(history.violations[0])}


def walk(start: int, count: int) -> Found:
    """Live through a range of seeds."""
    broken = list(lived(range(start, start + count)))
    return {"histories": count, "violations": len(broken), "broken": broken[:MOST]}


def hunt(name: str, count: int) -> Found:
    """Plant a bug and look for the first history of its application that shows it."""
    bug = bug_named(name)
    try:
        plant(bug)
        return {"bug": name, "found": next(lived(seeds_of(bug.history, 0, count)), None)}
    except Misplanted as error:
        return {"bug": name, "found": None, "error": str(error)}


def digests(seeds: Iterable[int]) -> Found:
    """Name what happens under each of these seeds."""
    from proof.apps.parts import live

    logging.disable()
    return {str(seed): live(seed).digest for seed in seeds}


def main(args: Sequence[str]) -> None:
    """Do what the arguments say: walk START COUNT, hunt NAME COUNT, digests SEED..."""
    verb, *rest = args
    match verb:
        case "walk":
            told = walk(int(rest[0]), int(rest[1]))
        case "hunt":
            told = hunt(rest[0], int(rest[1]))
        case _:
            told = digests(map(int, rest))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
