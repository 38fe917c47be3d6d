"""A worker that loses a claim says so only with evidence that this may be: without it, it is a finding."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from onefold import Key, Ledger
from onefold.core.entry import UNKNOWN, Change
from onefold.core.errors import Unreachable
from onefold.core.flow import get, swap
from onefold.drive import Event
from onefold.ledger.blocking import Claim
from onefold.testing.torture.points import Manner, Tripwire
from onefold.testing.torture.worker import SCOPE, Errand, Site, Worker

pytestmark = pytest.mark.store("sqlite")

OVER, NOT_OVER = -1e9, 1e9
"""Moments of a claim whose lease has certainly run out, and certainly has not."""


class Unhurried(Site):
    """A site with a long lease: a heartbeat would write, and move the moments that a test has set."""

    @property
    def lease(self) -> float:
        return 600.0


class Stage:
    """A worker, what it reports, and somebody who takes its keys away."""

    def __init__(self, folder: Path) -> None:
        self.site = Unhurried("sqlite", folder, "one-shot")
        self.said: list[tuple[object, ...]] = []

    def worker(self, manner: Manner = "releasing", disturbed: bool = False) -> Worker:
        site = self.site._replace(disturbed=disturbed)
        wire = Tripwire("one-shot", None, self.report)
        return Worker(site, Errand(manner, (1,)), wire, self.report)

    def report(self, *words: object) -> None:
        if words[0] == "end":
            self.said.append(words)

    def take_away(self) -> None:
        """Let another write over the worker's claim, as if its lease had run out."""
        store = Ledger(self.site.url)._open().store
        [seen] = store.get([Key(SCOPE, 1)])
        assert seen.entry is not None
        other = type(seen.entry)("held", token="another", lease=600.0, begun=1.0)
        store.swap([Change(Key(SCOPE, 1), seen.entry.version, other)])
        store.close()


def claimed(claim: Claim, moment: float) -> None:
    """Set the moment at which a claim was made, by the worker's clock."""
    assert claim.pulse is not None
    claim.pulse.hold = replace(claim.pulse.hold, since=moment)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_claim_that_was_lost_within_its_lease_is_a_finding_when_it_is_given_back(stage: Stage):
    worker = stage.worker()
    claim = worker.claim(1, 0.0)
    claimed(claim, NOT_OVER)
    stage.take_away()

    with pytest.raises(RuntimeError, match=r"torture/1 was lost within its lease, and the store answered"):
        worker.give_back(claim)
    assert stage.said == []


def test_a_claim_whose_lease_has_run_out_may_be_lost_when_it_is_given_back(stage: Stage):
    worker = stage.worker()
    claim = worker.claim(1, 0.0)
    stage.take_away()
    claimed(claim, OVER)
    worker.give_back(claim)

    assert stage.said == [("end", 1, "lost")]


@pytest.mark.parametrize(
    "silence",
    [
        Event(get([Key(SCOPE, 1)]), 0.1, error=Unreachable("killed")),
        Event(swap([Change(Key(SCOPE, 1), None, None)]), 0.1, reply=[UNKNOWN]),
    ],
)
def test_a_claim_may_be_lost_if_a_killed_server_left_a_call_unanswered(stage: Stage, silence: Event):
    worker = stage.worker(disturbed=True)
    claim = worker.claim(1, 0.0)
    claimed(claim, NOT_OVER)
    worker.tap(silence)
    worker.end_lost(claim)

    assert stage.said == [("end", 1, "unsure")]


def test_an_unanswered_call_is_no_evidence_for_what_was_reached_for_later(stage: Stage):
    worker = stage.worker(disturbed=True)
    worker.tap(Event(get([Key(SCOPE, 1)]), 0.1, error=Unreachable("killed")))
    worker.single(1, 0.0)

    assert not worker.unanswered
