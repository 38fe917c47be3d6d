"""The ways in which a stopped worker can meet what happened meanwhile, and what must come of each; pure.

A *rival* is whatever acts on the key while its holder is stopped: another worker, or a person. Nothing here
forks, waits or reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

from onefold.core.entry import Effect, Entry
from onefold.testing.torture.farside import Line

Stop = Literal["before", "inside", "after"]
"""Where in its effect the holder is stopped."""

Rival = Literal["settles", "holds", "looks", "probes", "resolves", "reruns"]
"""Another worker takes over and is through, or is still at it; or it finds a one-shot effect and parks it,
without and with a probe that does not find it; or a person then says that it happened, or that it did not,
and it is run again."""

Act = Literal["settle", "release", "park", "renew", "refuse"]
"""What the holder tries when it wakes."""

BY_HAND = '"by hand"'
"""The receipt that a person writes."""

STOPS: tuple[Stop, ...] = ("before", "inside", "after")


class Case(NamedTuple):
    """One way to become a zombie."""

    effect: Effect
    stop: Stop
    rival: Rival
    act: Act

    @property
    def may_write(self) -> bool:
        """A parked one-shot may still be ended by its own holder, until somebody decided about it."""
        return self.rival in ("looks", "probes")


def cases() -> list[Case]:
    """Return every case."""
    return [*_repeatable(), *_one_shot()]


def _repeatable() -> Iterator[Case]:
    effects: tuple[Effect, ...] = ("keyed", "idempotent")
    tried: tuple[tuple[Rival, Act], ...] = (
        ("settles", "settle"),
        ("holds", "settle"),
        ("settles", "release"),
        ("holds", "release"),
        ("holds", "park"),
        ("holds", "renew"),
    )
    for effect, stop, (rival, act) in product(effects, STOPS, tried):
        yield Case(effect, stop, rival, act)


def _one_shot() -> Iterator[Case]:
    rivals: tuple[Rival, ...] = ("looks", "probes", "resolves")
    for stop, rival in product(STOPS, rivals):
        yield Case("one-shot", stop, rival, "settle")
    # After the effect it would be the person who doubles it, by saying that it did not happen.
    yield Case("one-shot", "before", "reruns", "settle")
    yield Case("one-shot", "inside", "reruns", "settle")
    yield Case("one-shot", "before", "looks", "refuse")
    yield Case("one-shot", "before", "resolves", "refuse")


class Told(NamedTuple):
    """What a zombie or its rival says of itself."""

    pid: int
    token: str = ""
    """The token of what it won, if it won."""
    found: str = ""
    """What a rival that did not win found."""
    answer: str = ""
    """Whether what it tried at the end was accepted or refused."""
    knew: bool = False
    """Whether its claim said, after waking, that it was lost."""
    complaint: str | None = None


class Story(NamedTuple):
    """All that is known of one zombie at the end."""

    case: Case
    key: int
    zombie: Told
    rival: Told
    entry: Entry | None
    lines: Sequence[Line]
    """What the far side saw of this key."""


class Tally(NamedTuple):
    """What came of all zombies."""

    stopped: int
    stale: tuple[int, ...]
    """Keys on which a zombie's write was accepted although it was no longer its to make."""
    duplicated: tuple[int, ...]
    lost: tuple[int, ...]
    fenced: int
    late: int
    """Parked one-shots that their own holder ended after waking, as it may."""
    unexplained: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not (self.stale or self.duplicated or self.lost or self.unexplained)

    def __str__(self) -> str:
        return (
            f"{self.stopped} stopped, stale writes accepted {len(self.stale)}, "
            f"duplicated {len(self.duplicated)}, lost {len(self.lost)}, "
            f"refused by their fence {self.fenced}, parked and ended by their own holder {self.late}, "
            f"unexplained {len(self.unexplained)}"
        )


def tally(stories: Iterable[Story]) -> Tally:
    """Judge every story and count."""
    told = list(stories)
    return Tally(
        stopped=len(told),
        stale=tuple(story.key for story in told if wrote_stale(story)),
        duplicated=tuple(story.key for story in told if _doubled(story)),
        lost=tuple(story.key for story in told if not _times(story) and story.case.act != "refuse"),
        fenced=sum(line.word == "refused" for story in told for line in story.lines),
        late=sum(story.case.may_write and story.zombie.answer == "accepted" for story in told),
        unexplained=tuple(
            f"key {story.key}, {_shown(story)}: {odd}" for story in told for odd in oddities(story)
        ),
    )


def wrote_stale(story: Story) -> bool:
    """Say whether the zombie changed something that was no longer its own, in the ledger or outside."""
    if story.case.may_write:
        return False
    if story.zombie.answer == "accepted" or story.rival.answer == "refused" or _outdated(story.lines):
        return True
    # A worker that failed is a finding of its own; what it left undone was not undone by the zombie.
    failed = story.zombie.complaint or story.rival.complaint
    return not failed and not _as_the_rival_left_it(story)


def _as_the_rival_left_it(story: Story) -> bool:
    entry = story.entry
    if entry is None or entry.state != "done":
        return False
    return entry.body == BY_HAND if story.case.rival == "resolves" else entry.token == story.rival.token


def _outdated(lines: Sequence[Line]) -> bool:
    """Say whether the far side did something for a fence after it had heard of a larger one."""
    newest = 0
    for line in lines:
        if line.word == "accepted" and line.fence < newest:
            return True
        newest = max(newest, line.fence)
    return False


def _doubled(story: Story) -> bool:
    # What is idempotent may happen again, in the order of its fences; wrote_stale looks at that.
    return story.case.effect != "idempotent" and _times(story) > 1


def _times(story: Story) -> int:
    return sum(line.word == "accepted" for line in story.lines)


def oddities(story: Story) -> list[str]:
    """Find what neither a rule nor the case explains."""
    case, zombie, rival = story.case, story.zombie, story.rival
    odd = [told.complaint for told in (zombie, rival) if told.complaint]
    if not odd and not zombie.answer:
        odd.append("the zombie did not say what came of it")
    if case.effect == "one-shot" and rival.found != "parked":
        odd.append(f"the rival found it {rival.found or 'free to take'}, not parked")
    if case.effect != "one-shot" and not zombie.knew:
        odd.append("the zombie's claim did not say that it was lost")
    if case.may_write and not _ended_by_its_holder(story):
        odd.append("the holder of a parked effect could not say how it ended")
    return odd


def _ended_by_its_holder(story: Story) -> bool:
    wanted = "free" if story.case.act == "refuse" else "done"
    entry = story.entry
    return entry is not None and entry.state == wanted and entry.token == story.zombie.token


def _shown(story: Story) -> str:
    return " ".join(story.case)
