"""Those who decide: an operator who looks and resolves, and whoever sweeps out what is forgotten.

An operator asks the far side first, and says "it did not happen" of what is not there, though it may
still be on its way: that is a person's word, and the checkers count it as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onefold.core.errors import Unreachable
from proof.sim import watched
from proof.sim.subject import Subject

if TYPE_CHECKING:
    from proof.sim.process import Task


async def decide(task: Task, subject: Subject) -> None:
    """Look at the far side, then resolve or retry."""
    world = task.world
    try:
        if world.fate.random() < 0.3:
            await watched.retried(task, subject)
        else:
            await watched.resolved(task, subject, happened=bool(subject.accepted))
    except Unreachable:
        world.note(task.process.name, "gives up")
    if world.healed:
        world.bring_to_end(subject)


async def purge(task: Task) -> None:
    """Remove what the ledger no longer has to remember."""
    try:
        await watched.purged(task)
    except Unreachable:
        task.world.note(task.process.name, "gives up")
