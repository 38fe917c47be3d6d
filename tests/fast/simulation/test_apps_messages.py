"""Histories of messages: what is wrong is noticed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onefold.core.entry import Seen
from proof.apps.messages import FILE, Messages
from proof.apps.scribe import Scribe
from tests.fast.simulation.living import ABANDONED, broken, lived

pytestmark = ABANDONED


class Forgetting(Messages):
    """Nothing of what was sent has arrived."""

    def happened(self):
        return super().happened() - super().happened()


class Doubling(Messages):
    """The first signal that was sent arrives once more."""

    def happened(self):
        found = super().happened()
        return found + type(found)(list(found)[:1])


def test_a_signal_that_was_not_sent_is_noticed():
    assert {"lost", "stuck"} <= broken(lived(Forgetting, 3))


def test_a_signal_that_was_sent_twice_is_noticed():
    assert {"twice", "stuck"} <= broken(lived(Doubling, 3))


class Empty:
    """A ledger that knows nothing."""

    def __call__(self, keys):
        return [Seen(None, 0.0) for _ in keys]


def test_a_cursor_that_passed_an_open_line_is_noticed(tmp_path):
    part = _part(tmp_path)
    part.scribe.write({"id": "a"})
    part.scribe.garbage(b"{")
    part.scribe.write({"id": "b"})

    assert list(part._passed_over("mailer", 1, Empty())) == []
    assert len(list(part._passed_over("mailer", 3, Empty()))) == 1
    assert len(list(part._passed_over("mailer", 4, Empty()))) == 2


def test_a_line_that_is_no_signal_and_was_not_set_apart_is_noticed(tmp_path):
    part = _part(tmp_path)
    assert list(part.wrong()) == []

    part.scribe.garbage(b"{")
    assert len(list(part.wrong())) == 1


def _part(folder: Path) -> Messages:
    return Messages(Random(1), lambda: 1_700_000_000.0, folder)


# ----- the writer of the files


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / FILE, lambda: 1_700_000_000.0)


def _texts(folder: Path) -> dict[str, int]:
    return {one.name: len(one.read_bytes().splitlines()) for one in sorted(folder.iterdir())}


def test_a_torn_line_is_ended_in_the_file_in_which_it_began(scribe, tmp_path):
    scribe.write({"id": "a"})
    scribe.tear({"id": "b"}, 0.5, is_given_up=False)
    scribe.rotate("numbered", create=True)
    scribe.write({"id": "c"})

    assert _texts(tmp_path) == {FILE: 1, f"{FILE}.1": 2}
    assert [line["id"] for line in scribe.journal.of("signal")] == ["a", "b", "c"]


def test_a_signal_that_was_given_up_is_written_again_on_a_line_of_its_own(scribe, tmp_path):
    scribe.tear({"id": "a"}, 0.5, is_given_up=True)
    scribe.mend()

    assert (tmp_path / FILE).read_bytes() == b'{"id":\n{"id": "a"}\n'
    assert scribe.lines == [[b'{"id":', b'{"id": "a"}']]


def test_rotated_files_are_numbered_anew_and_packed(scribe, tmp_path):
    scribe.write({"id": "a"})
    scribe.rotate("numbered", create=True)
    scribe.pack()
    scribe.write({"id": "b"})
    scribe.rotate("copied", create=False)

    assert _texts(tmp_path).keys() == {FILE, f"{FILE}.1", f"{FILE}.2.gz"}
    assert (tmp_path / FILE).read_bytes() == b""
