"""One part of a run, in a process of its own: a range of seeds, or the hunt for one planted bug.

It prints one line of JSON for whoever started it. A bug is planted before anything of ours that it could
be planted into is imported.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from proof.sim.bug import History, Misplanted
from proof.sim.planted import named
from proof.sim.planting import plant

MOST = 20
"""How many broken histories are told of; the rest is only counted."""

HISTORIES: dict[History, str] = {
    "ledger": "proof.sim.history",
    "worker": "proof.sim.working",
    "tiles": "proof.sim.covering",
}

Found = dict[str, Any]


def lived(seeds: Sequence[int], of: History = "ledger") -> Iterator[Found]:
    """Live through histories; tell of each that broke a promise."""
    live = import_module(HISTORIES[of]).live
    logging.disable()  # workers complain of every fault, and there are many

    # Histories are rings of objects that die together: collecting often finds nothing, and costs a tenth.
    gc.set_threshold(50_000, 20, 20)
    for seed in seeds:
        world = live(seed)
        if world.violations:
            checkers = sorted({violation.checker for violation in world.violations})
            yield {"of": of, "seed": seed, "checkers": checkers, "text": str(world.violations[0])}


def walk(start: int, count: int, of: History = "ledger") -> Found:
    """Live through a range of seeds."""
    broken = list(lived(range(start, start + count), of))
    return {"of": of, "histories": count, "violations": len(broken), "broken": broken[:MOST]}


def hunt(name: str, start: int, count: int) -> Found:
    """Plant a bug and look for the first history that shows it."""
    try:
        bug = named(name)
        plant(bug)
        return {"bug": name, "found": next(lived(range(start, start + count), bug.history), None)}
    except Misplanted as error:
        return {"bug": name, "found": None, "error": str(error)}


def main(args: Sequence[str]) -> None:
    """Do what the arguments say: walk START COUNT, work START COUNT, hunt NAME START COUNT."""
    verb, *rest = args
    if verb in ("walk", "work"):
        told = walk(int(rest[0]), int(rest[1]), "ledger" if verb == "walk" else "worker")
    else:
        told = hunt(rest[0], int(rest[1]), int(rest[2]))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
