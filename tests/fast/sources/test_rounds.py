"""Rounds of code that blocks: every page of every round is read, and how records stand is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onefold.core.cursor import Cursor
from onefold.core.record import Page, Record, Standing
from onefold.sources.rounds import Rounds
from onefold.worker import Worker
from tests.fast.worker.stage import FarSide, pipeline, run_until, store


class Numbers:
    """Shows some numbers, two to a page; one more comes with every round."""

    def __init__(self) -> None:
        self.known = 3
        self.cursors: list[Cursor] = []
        self.noted: dict[str, str] = {}
        self.closed = 0

    def pages(self, cursor: Cursor) -> Iterator[Page]:
        self.cursors.append(cursor)
        found = [Record(f"r{n}", {"n": n}, n) for n in range(self.known)]
        self.known += 1
        for at in range(0, len(found), 2):
            yield Page(found[at : at + 2], more=at + 2 < len(found))

    def note(self, standings: Sequence[Standing]) -> None:
        self.noted.update((one.record.id, one.fate) for one in standings)

    def close(self) -> None:
        self.closed += 1


def test_every_page_of_every_round_is_read_and_told_and_in_the_end_it_is_closed():
    _, awaited = store()
    shows, far = Numbers(), FarSide()
    source = Rounds(shows, every="10ms", lag="2s", timed=False)
    one = Worker([pipeline(source, far)], store=awaited)

    def through() -> bool:
        moved = bool(shows.cursors) and shows.cursors[-1].at is not None
        return far.happened["r6", ""] == 1 and shows.noted.get("r5") == "done" and moved

    run_until(one, through)

    assert set(far.happened.values()) == {1}
    assert shows.noted["r0"] == "done"
    assert shows.cursors[0] == Cursor()
    assert shows.cursors[-1].at is not None
    assert shows.closed == 1
    assert (source.lag, source.timed) == (2.0, False)
