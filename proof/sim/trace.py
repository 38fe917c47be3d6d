"""What people read of a history: its trace, the verdicts, the story of one key, and how to see it again.

A digest of the trace tells two runs apart; the same seed must give the same one, in every process.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from onefold.core.entry import Entry
from proof.sim.checkers import PROMISES
from proof.sim.history import live
from proof.sim.subject import Subject
from proof.sim.world import World

LINES = 20
"""How much of a trace is shown with a failure."""


def digest(world: World) -> str:
    """Name what happened, by everything in the trace."""
    hashed = blake2b("\n".join(world.lines or ()).encode(), digest_size=8)
    return hashed.hexdigest()


def digests(seeds: Iterable[int]) -> list[str]:
    """Name what happens under each of these seeds."""
    return [digest(live(seed, tracing=True)) for seed in seeds]


def command(seed: int, bug: str | None = None) -> str:
    """Give the command that shows a history again."""
    return f"./dev sim --seed {seed}" + (f" --plant {bug}" if bug else "")


def told(world: World) -> str:
    """Tell a whole history: its faults, its keys, everything that happened, and the verdicts."""
    return "\n".join([*_opening(world), "", *(world.lines or ()), "", *verdicts(world)])


def _opening(world: World) -> list[str]:
    knobs = world.knobs
    faults = {name: getattr(knobs, name) for name in knobs.__slots__}
    shown = [f"{name} {_number(value)}" for name, value in faults.items() if value]
    keys = [f"{subject}: {subject.effect}, {_terms(subject)}" for subject in world.subjects]
    return [f"seed {world.seed}: {', '.join(shown)}", *keys]


def _number(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _terms(subject: Subject) -> str:
    terms = subject.terms
    keep = "for ever" if terms.keep is None else f"for {terms.keep:.1f} s"
    window = "" if subject.window is None else f", known outside for {subject.window:.1f} s"
    fenced = ", fenced outside" if subject.fenced else ""
    return f"lease {terms.lease:.1f} s, {terms.attempts} attempts, remembered {keep}{window}{fenced}"


def verdicts(world: World) -> list[str]:
    """Say of every promise whether it was kept."""
    broken: dict[str, list[str]] = {}
    for violation in world.violations:
        broken.setdefault(violation.checker, []).append(str(violation))
    return [
        f"{'BROKEN' if name in broken else 'kept':7} {name}: {promise}"
        + "".join(f"\n        {text}" for text in broken.get(name, ()))
        for name, promise in PROMISES.items()
    ]


def failure(world: World, bug: str | None = None) -> str:
    """Tell of a broken promise: the seed, the last lines, the key's history, the command to see it all."""
    violation = world.violations[0]
    lines = world.lines or []
    mark = f"CHECK    {violation}"
    upto = next((at + 1 for at, line in enumerate(lines) if mark in line), len(lines))
    return "\n".join(
        [
            f"seed {world.seed}: {violation}",
            "",
            *lines[max(upto - LINES, 0) : upto],
            "",
            *(history(violation.subject) if violation.subject is not None else ()),
            f"see it all: {command(world.seed, bug)}",
        ]
    )


def history(subject: Subject) -> list[str]:
    """Tell everything that was written about one key, asked about it, and done."""
    told = [f"everything written about {subject}:"]
    for write in subject.writes:
        who = f"{write.op.kind} of {write.op.token or write.op.who}" if write.op is not None else "nobody"
        told.append(f"{write.at:10.3f}  {_entry(write.old)} -> {_entry(write.new)}, by {who}")
    told.append(f"what happened to {subject} outside:")
    for attempt in subject.attempts:
        arrived = f"{attempt.verdict} at {attempt.arrived:.3f}" if attempt.verdict else "never arrived"
        told.append(f"{attempt.started:10.3f}  under {attempt.token}, fence {attempt.fence}: {arrived}")
    return told


def _entry(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    begun = " begun" if entry.begun is not None else ""
    why = f" {entry.why}" if entry.why else ""
    return f"{entry.state}{why}{begun} by {entry.token} at {entry.version}"
