"""The far side notes what it sees, and where it is told to, ignores repeats and refuses stale fences."""

from pathlib import Path

from onefold.testing.torture.farside import FarSide


def words(far_side: FarSide) -> list[str]:
    return [line.word for line in far_side.lines()]


def test_a_plain_far_side_does_whatever_it_is_asked(tmp_path: Path):
    far_side = FarSide(tmp_path / "journal")

    far_side.arrive(7, 100, 1)
    far_side.carry_out(7, 100, 1)
    far_side.carry_out(7, 99, 1)

    assert words(far_side) == ["arrived", "accepted", "accepted"]


def test_a_far_side_that_knows_keys_ignores_a_repeat(tmp_path: Path):
    far_side = FarSide(tmp_path / "journal", dedupe=True)

    assert [far_side.carry_out(key, 100, 1) for key in (7, 77, 7)] == ["accepted", "accepted", "repeated"]
    assert words(far_side) == ["accepted", "accepted", "repeated"]


def test_a_far_side_that_knows_fences_refuses_who_comes_after_a_newer_one(tmp_path: Path):
    far_side = FarSide(tmp_path / "journal", fenced=True)
    far_side.arrive(7, 101, 2)

    assert far_side.carry_out(7, 100, 1) == "refused"
    assert far_side.carry_out(7, 101, 2) == "accepted"
    assert far_side.carry_out(8, 100, 1) == "accepted"


def test_nothing_happened_where_there_is_no_journal(tmp_path: Path):
    assert FarSide(tmp_path / "journal").lines() == []
