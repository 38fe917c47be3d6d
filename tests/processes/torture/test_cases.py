"""The judgement about zombies finds every stale write, and lets a parked holder have its say."""

from collections.abc import Sequence

import pytest

from onefold.core.entry import Entry
from onefold.testing.torture.cases import BY_HAND, Case, Story, Told, cases, tally
from onefold.testing.torture.farside import Line, Word

ZOMBIE = Told(1, token="old", answer="refused", knew=True)
LATE = Told(1, token="old", answer="accepted")
RIVAL = Told(2, token="new", answer="accepted")
SETTLED_BY_RIVAL = Entry("done", token="new")
SETTLED_BY_ZOMBIE = Entry("done", token="old")
FINDER = Told(2, found="parked")
TAKEN_OVER = Case("keyed", "inside", "settles", "settle")
PARKED = Case("one-shot", "inside", "looks", "settle")
RESOLVED = Case("one-shot", "inside", "resolves", "settle")


def lines(*events: tuple[Word, int]) -> list[Line]:
    return [Line(word, 7, fence, fence, 1) for word, fence in events]


FENCED = lines(("arrived", 1), ("arrived", 2), ("accepted", 2), ("refused", 1))
ALONE = lines(("arrived", 1), ("accepted", 1))


def taken_over(
    zombie: Told = ZOMBIE,
    rival: Told = RIVAL,
    entry: Entry | None = SETTLED_BY_RIVAL,
    seen: Sequence[Line] = FENCED,
    case: Case = TAKEN_OVER,
) -> Story:
    return Story(case, 7, zombie, rival, entry, seen)


def parked(
    zombie: Told = LATE,
    rival: Told = FINDER,
    entry: Entry | None = SETTLED_BY_ZOMBIE,
    seen: Sequence[Line] = ALONE,
    case: Case = PARKED,
) -> Story:
    return Story(case, 7, zombie, rival, entry, seen)


def test_a_zombie_that_was_refused_everywhere_raises_no_finding():
    found = tally([taken_over()])

    assert found.holds
    assert found.fenced == 1


def test_a_parked_holder_may_still_settle_or_free():
    freed = parked(entry=Entry("free", token="old"), seen=[], case=PARKED._replace(act="refuse"))

    found = tally([parked(), freed])

    assert found.holds
    assert found.late == 2


@pytest.mark.parametrize(
    "story",
    [
        taken_over(zombie=ZOMBIE._replace(answer="accepted")),
        taken_over(rival=RIVAL._replace(answer="refused")),
        taken_over(entry=Entry("done", token="old")),
        taken_over(entry=Entry("free", token="new")),
        taken_over(entry=None),
        taken_over(seen=lines(("arrived", 2), ("accepted", 2), ("arrived", 1), ("accepted", 1))),
        parked(case=RESOLVED, entry=Entry("done", body=BY_HAND)),
        parked(case=RESOLVED, zombie=ZOMBIE, entry=Entry("done", token="old", body="null")),
    ],
)
def test_a_write_that_was_no_longer_the_zombies_to_make_is_found(story: Story):
    assert tally([story]).stale == (7,)


def test_a_holder_whose_effect_a_person_resolved_raises_no_finding_if_it_is_refused():
    assert tally([parked(case=RESOLVED, zombie=ZOMBIE, entry=Entry("done", body=BY_HAND))]).holds


@pytest.mark.parametrize(("effect", "duplicated"), [("keyed", (7,)), ("one-shot", (7,)), ("idempotent", ())])
def test_only_what_is_idempotent_may_happen_twice_and_in_the_order_of_its_fences(effect, duplicated):
    twice = lines(("arrived", 1), ("accepted", 1), ("arrived", 2), ("accepted", 2))

    assert tally([taken_over(case=TAKEN_OVER._replace(effect=effect), seen=twice)]).duplicated == duplicated


def test_an_effect_that_nobody_had_is_lost():
    assert tally([taken_over(seen=lines(("arrived", 1), ("refused", 1)))]).lost == (7,)


@pytest.mark.parametrize(
    "story",
    [
        taken_over(zombie=ZOMBIE._replace(complaint="worker 1 failed")),
        taken_over(rival=RIVAL._replace(complaint="worker 2 failed")),
        taken_over(zombie=ZOMBIE._replace(answer="")),
        taken_over(zombie=ZOMBIE._replace(knew=False)),
        parked(rival=FINDER._replace(found="busy")),
        parked(rival=FINDER._replace(found="")),
        parked(entry=Entry("parked", token="old")),
        parked(entry=Entry("done", token="new")),
    ],
)
def test_what_no_rule_explains_is_found(story: Story):
    assert len(tally([story]).unexplained) == 1


def test_every_repeatable_class_is_stopped_everywhere_and_tries_everything():
    tried = {(case.effect, case.stop, case.act) for case in cases() if case.effect != "one-shot"}

    assert len(tried) == 2 * 3 * 4
    assert {case.rival for case in cases() if case.effect == "one-shot"} == {
        "looks",
        "probes",
        "resolves",
        "reruns",
    }
