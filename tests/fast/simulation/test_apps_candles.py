"""Histories of candles: what is wrong is noticed."""

from onefold.core.coverage import Span
from onefold.core.entry import NOTHING
from proof.apps.candles import MIDNIGHT, Candles
from proof.apps.quotes import Cell, Stamped, between, timelines
from tests.fast.simulation.living import ABANDONED, broken, lived

pytestmark = ABANDONED


class Forgetful(Candles):
    """A journal that has a bar which the service never showed."""

    def calm(self) -> None:
        super().calm()
        values = {"o": 1.1, "h": 1.1, "l": 1.1, "c": 1.1, "v": 1, "vw": 1.1}
        # No bar is ever drawn at this minute (see `services`).
        self.journal.note("minute", ticker="C:EURUSD", t=(MIDNIGHT - 660) * 1000, **values)


class Tampering(Candles):
    """A table in which somebody changes a bar when everything is quiet."""

    def happened(self):
        found = super().happened()
        if self.api.shown_until is None and found:
            changed = sorted(found)[0]
            found[f"{changed} and more"] = found.pop(changed)
        return found


class Hasty(Candles):
    """A ledger that says of every tile that it is in as soon as it is claimed."""

    def moved(self, key, entry, look):
        yield from super().moved(key, entry, look)
        cell = self._ever.get(key.id)
        if cell and entry.state == "held":
            yield from self._untrue(cell, {"state": "complete", "rows": 1_000})


def test_a_bar_that_is_missing_from_the_table_is_lost(monkeypatch):
    monkeypatch.setattr("proof.apps.history.LONGEST", 120.0)

    assert broken(lived(Forgetful, 1)) >= {"lost", "stuck"}


def test_a_bar_with_other_values_is_lost_and_one_too_many(monkeypatch):
    monkeypatch.setattr("proof.apps.history.LONGEST", 120.0)

    assert broken(lived(Tampering, 1)) >= {"lost", "twice"}


def test_a_tile_that_is_marked_too_early_is_not_true():
    assert "true" in broken(lived(Hasty, 1))


def test_bars_are_joined_from_the_minutes_of_the_journal_and_know_their_past():
    now = [0.0]
    journal = Stamped(lambda: now[0])
    day = Cell("EUR/USD", "C:EURUSD", "5m", 300, Span(0, 86_400))
    values = {"o": 2.0, "h": 4.0, "l": 1.0, "c": 3.0, "v": 5, "vw": 2.5}
    journal.note("minute", ticker="C:EURUSD", t=300_000, **values)
    journal.note("minute", ticker="C:USDJPY", t=300_000, **values)
    now[0] = 10.0
    journal.note("minute", ticker="C:EURUSD", t=360_000, **{**values, "h": 6.0, "c": 5.0})
    now[0] = 20.0
    journal.note("correction", ticker="C:EURUSD", start=300, l=0.5)

    [(start, timeline)] = timelines(journal, day).items()

    first, second, third = (values for _, values in timeline)
    assert (start, first) == (300, (2.0, 4.0, 1.0, 3.0, 5.0, 2.5))
    assert (second, third) == ((2.0, 6.0, 1.0, 5.0, 10.0, 2.5), (2.0, 6.0, 0.5, 5.0, 10.0, 2.5))
    assert between(timeline, 5.0, 10.0) == [first, second]
    assert between(timeline, 15.0, 15.0) == [second]
    assert between(timeline, -5.0, -1.0) == [first]


class Passing(Candles):
    """A store in which nobody claimed the tiles that a cursor passed."""

    def moved(self, key, entry, look):
        if key.id in self._sources:
            yield from super().moved(key, entry, lambda keys: [NOTHING] * len(keys))


def test_a_cursor_that_passes_a_tile_that_nobody_claimed_is_not_true():
    assert "true" in broken(lived(Passing, 1))
