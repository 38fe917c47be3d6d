"""Histories of copytrade: what is wrong is noticed."""

from collections.abc import Sequence

import pytest

from onefold.core.entry import NOTHING, Seen
from onefold.core.key import Key
from proof.apps.copytrade import Change, Copytrade
from proof.apps.history import History
from tests.fast.simulation.living import ABANDONED, broken, lived

SEED = 2
"""A history with many orders, in which no limit of orders hides what is missing, and leaders never change."""

pytestmark = ABANDONED


@pytest.fixture(autouse=True)
def short(monkeypatch):
    # What is left after so long stays left; no history of these seeds needs more.
    monkeypatch.setattr("proof.apps.history.LONGEST", 60.0)


def tampered(part: type[Copytrade]) -> History:
    # The name is part of the seed: a part that was tampered with lives through the same history.
    part.__name__ = Copytrade.__name__
    return lived(part, SEED)


def unclaimed(keys: Sequence[Key]) -> list[Seen]:
    return [NOTHING] * len(keys)


class Unseen(Copytrade):
    """A service that does not know the first order that it took."""

    def happened(self):
        found = super().happened()
        for name in sorted(self.orders.names())[:1]:
            del found[name]
        return found


class Repeating(Copytrade):
    """A service that took its first order twice."""

    def happened(self):
        found = super().happened()
        found.update(sorted(self.orders.names())[:1])
        return found


class Greedy(Copytrade):
    """A service that took other sizes than were right."""

    def _share(self, size, ratio):
        return super()._share(size, ratio) + 1


class Passing(Copytrade):
    """A store in which nobody claimed the trades that the cursor of the chain passed."""

    def moved(self, key, entry, look):
        yield from super().moved(key, entry, unclaimed)


class Restless(Copytrade):
    """A ledger in which a trade that no fork took away is retracted."""

    def calm(self):
        super().calm()
        self.retracted[b"nobody asked"] = "retraction of a trade that stands"


@pytest.mark.parametrize(
    ("part", "promise"),
    [(Unseen, "lost"), (Repeating, "twice"), (Greedy, "true"), (Passing, "true"), (Restless, "twice")],
)
def test_what_is_not_as_it_should_be_is_noticed(part, promise):
    assert promise in broken(tampered(part))


def test_the_truth_of_a_trade_depends_on_leaders_and_cursors():
    part = lived(Copytrade, SEED).part
    assert isinstance(part, Copytrade)
    one = next(trade for trade in part.trades() if part.fate(trade) == "must")
    others = tuple(leader for leader in part.changes[-1].leaders if leader != one.leader)
    added = Change(part._acted[one.transaction] - 60, (*others, one.leader))

    part._passed = 0
    assert list(part._behind(None, unclaimed)) == []
    assert list(part._behind(part.chain.head.number + 10, unclaimed)) != []
    part.changes = [Change(0.0, others)]
    assert part.fate(one) == "never"
    part.changes = [Change(0.0, others), added]
    assert part.fate(one) == "must"
