"""Files of lines that are rotated, truncated or replaced: every line arrives, or a gap says what may not."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.record import Gap, Page
from onefold.drive import Inline, Ports, run
from onefold.sources.replay import Replay
from onefold.sources.rotation import Step, Trail
from onefold.worker import Worker
from onefold.worker.operating import cursors, gaps
from onefold.worlds.journal import Journal
from tests.fast.sources.reading import acted, pipeline
from tests.fast.virtual import TestLoop
from tests.waiting import PATIENCE

START = 1_700_000_000
SOON = 0.0001
NOWHERE = Cursor()


class Folder:
    """A folder with a file of lines in it, whose clock is ours: every write is a second later."""

    def __init__(self, path: Path) -> None:
        self.file = path / "lines.jsonl"
        self._written = START
        self._number = 0
        self.file.touch()

    def add(self, *names: str, file: Path | None = None, text: str | None = None) -> None:
        """Add a line for each name."""
        told = text if text is not None else "".join(json.dumps({"id": name}) + "\n" for name in names)
        with (file or self.file).open("a") as lines:
            lines.write(told)
        self.touch(file or self.file)

    def touch(self, file: Path) -> None:
        self._written += 1
        os.utime(file, (self._written, self._written))

    def rotate(self, create: bool = True) -> Path:
        """Rename the file, as logrotate does; the older ones move on by one."""
        there = sorted(self.file.parent.glob("lines.jsonl.*"), key=lambda one: -int(one.name.split(".")[2]))
        for old in there:
            number = int(old.name.split(".")[2])
            old.rename(old.with_name(old.name.replace(f"jsonl.{number}", f"jsonl.{number + 1}")))
        rotated = self.file.with_name("lines.jsonl.1")
        self.file.rename(rotated)
        if create:
            self.file.touch()
        return rotated

    def copy_and_truncate(self, name: str = "lines.jsonl.1") -> Path:
        copy = self.file.with_name(name)
        shutil.copy(self.file, copy)
        self.touch(copy)
        os.truncate(self.file, 0)
        return copy


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class Heard:
    """Pages of one reading, as a worker would take them: the cursor follows when all is done."""

    def __init__(self, cursor: Cursor = NOWHERE) -> None:
        self.cursor = cursor
        self.names: list[str] = []
        self.gaps: list[Gap] = []
        self.broken: list[str] = []

    def take(self, page: Page) -> None:
        self.names += [record.id for record in page.records]
        self.broken += [one.reason for one in page.broken]
        self.gaps += [page.gap] if page.gap else []
        reached = max((record.at for record in page.records), default=None)
        if reached is not None:
            mark = self.cursor.mark if page.mark is None else json.loads(json.dumps(page.mark.known))
            self.cursor = Cursor(max(reached, self.cursor.at or 0), mark)

    def fresh(self) -> list[str]:
        """Give the names since the last question."""
        names, self.names = self.names, []
        return names


def read(folder: Folder, cursor: Cursor = NOWHERE, **how: Any) -> Heard:
    """Read to the end of the lines."""
    heard = Heard(cursor)

    async def whole() -> None:
        async for page in Replay(folder.file, **{"id": "id", "patience": SOON, **how}).read(cursor):
            heard.take(page)

    anyio.run(whole)
    return heard


class Following(Heard):
    """Follows a file, page by page, in a folder that changes between two questions."""

    def __init__(self, loop: TestLoop, folder: Folder, **how: Any) -> None:
        super().__init__()
        source = Replay(folder.file, **{"id": "id", "patience": SOON, "follow": 0.0005, **how})
        self._loop = loop
        self._pages: Any = source.read(NOWHERE)

    def until(self, number: int) -> list[str]:
        """Read on until so many names were heard, and return them."""

        async def more() -> None:
            with anyio.fail_after(PATIENCE):
                while len(self.names) < number:
                    self.take(await anext(self._pages))

        self._loop.run_until_complete(more())
        return self.fresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._pages.aclose())


@pytest.fixture
def following(loop: TestLoop, folder: Folder) -> Callable[..., Following]:
    """Follow the file of the folder."""
    return partial(Following, loop, folder)


# ----- while it is followed


def test_a_renamed_file_is_read_to_its_end_and_then_the_new_one(folder, following):
    folder.add("a", "b")
    with following() as heard:
        assert heard.until(2) == ["a", "b"]
        rotated = folder.rotate()
        folder.add("c", file=rotated)
        folder.add("d", "e")
        assert heard.until(3) == ["c", "d", "e"]
    assert (heard.gaps, heard.cursor.at) == ([], 5)


def test_a_new_file_that_comes_later_is_waited_for(folder, following):
    folder.add("a")
    with following() as heard:
        assert heard.until(1) == ["a"]
        rotated = folder.rotate(create=False)
        folder.add("b", file=rotated)
        assert heard.until(1) == ["b"]
        folder.add("c")
        assert heard.until(1) == ["c"]
    assert heard.gaps == []


def test_two_rotations_between_two_looks_lose_nothing(folder, following):
    folder.add("a")
    with following(follow=0.2) as heard:
        assert heard.until(1) == ["a"]
        folder.add("b")
        folder.rotate()
        folder.add("c")
        folder.rotate()
        folder.add("d")
        assert heard.until(3) == ["b", "c", "d"]
    assert heard.gaps == []


@pytest.mark.parametrize("number", [1, 50], ids=["shorter than before", "longer than before"])
def test_a_file_that_was_copied_and_truncated_is_read_on_in_its_copy_and_then_anew(folder, following, number):
    folder.add("a", "b", "c")
    with following(follow=0.2) as heard:
        assert heard.until(3) == ["a", "b", "c"]
        folder.add("d")
        folder.copy_and_truncate()
        folder.add(*(f"new{at}" for at in range(number)))
        assert heard.until(1 + number) == ["d", *(f"new{at}" for at in range(number))]
    assert heard.gaps == []


def test_lines_that_a_writer_still_puts_into_the_renamed_file_are_read(folder, following):
    folder.add("a")
    with following() as heard:
        heard.until(1)
        rotated = folder.rotate()
        folder.add("b")
        assert heard.until(1) == ["b"]
        folder.add("c", file=rotated)
        assert heard.until(1) == ["c"]
        folder.add("d")
        assert heard.until(1) == ["d"]
    assert (heard.gaps, heard.cursor.at) == ([], 3)


def test_a_file_that_was_left_before_its_successor_has_lines_is_taken_up_again(folder, following):
    folder.add("a")
    with following(id=None) as heard:
        heard.until(1)
        rotated = folder.rotate()
        for name in ("b", "c"):
            folder.add(name, file=rotated)
            heard.until(1)
        folder.add("d")
        assert heard.until(1) == ["4"]


def test_a_late_line_has_a_name_of_its_own_where_lines_are_named_by_their_number(folder, following):
    folder.add("a")
    with following(id=None) as heard:
        heard.until(1)
        rotated = folder.rotate()
        folder.add("b")
        assert heard.until(1) == ["2"]
        folder.add("c", file=rotated)
        assert heard.until(1) == ["2 late"]


def test_a_file_that_was_truncated_without_a_copy_leaves_a_gap_and_is_read_from_its_start(folder, following):
    folder.add("a", "b")
    with following() as heard:
        heard.until(2)
        os.truncate(folder.file, 0)
        folder.add("c")
        assert heard.until(1) == ["c"]
        os.truncate(folder.file, 0)
        folder.add("d")
        assert heard.until(1) == ["d"]
    assert [gap[:2] for gap in heard.gaps] == [(2, 3), (4, 5)]
    assert "was truncated or replaced" in heard.gaps[0].reason


def test_a_line_that_was_torn_when_the_file_was_rotated_is_shown_before_the_new_file(folder, following):
    folder.add("a")
    folder.add(text='{"id": "torn"')
    with following(patience=0.01) as heard:
        heard.until(1)
        folder.rotate()
        folder.add("b")
        assert heard.until(1) == ["b"]
    assert [reason.partition(":")[0] for reason in heard.broken] == ["line 2"]
    assert heard.broken[0].endswith("the line has no end")


def test_a_broken_line_of_a_later_file_is_named_by_its_own_number_and_file(folder):
    folder.add("a", "b", "c")
    folder.rotate()
    folder.add(text="oops\n")

    heard = read(folder, file_cursor(folder))

    assert [reason.partition(": ")[0] for reason in heard.broken] == ["line 1 of lines.jsonl"]


def file_cursor(folder: Folder) -> Cursor:
    """Give the cursor of a worker that read the rotated file and nothing else."""
    rotated = Folder.__new__(Folder)
    rotated.file = folder.file.with_name("lines.jsonl.1")
    return read(rotated).cursor


# ----- while nobody reads


def test_a_file_that_was_renamed_while_nobody_read_is_read_to_its_end_first(folder):
    folder.add("a", "b")
    cursor = read(folder).cursor
    folder.add("c")
    folder.rotate()
    folder.add("d")

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["b", "c", "d"], [])
    assert read(folder, heard.cursor).names == ["d"]


def test_every_file_that_was_rotated_while_nobody_read_is_read_in_order(folder):
    folder.add("a")
    folder.rotate()
    folder.add("b", "c")
    cursor = read(folder).cursor
    for name in ("d", "e", "f"):
        folder.add(name)
        folder.rotate()
    folder.add("g")

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["c", "d", "e", "f", "g"], [])


def test_a_rotated_file_that_was_packed_is_read(folder):
    folder.add("a")
    cursor = read(folder).cursor
    folder.add("b")
    rotated = folder.rotate()
    packed = rotated.with_name(f"{rotated.name}.gz")
    packed.write_bytes(gzip.compress(rotated.read_bytes()))
    folder.touch(packed)
    both = read(folder, cursor)
    rotated.unlink()
    folder.add("c")

    assert (both.names, both.gaps) == (["a", "b"], [])
    assert (read(folder, cursor).names, read(folder, cursor).gaps) == (["a", "b", "c"], [])


def test_a_packed_file_that_is_damaged_leaves_a_gap_and_the_next_one_is_read(folder):
    folder.add("a")
    cursor = read(folder).cursor
    rotated = folder.rotate()
    rotated.with_name(f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes())[:-9] + b"x")
    rotated.unlink()
    folder.add("c")

    heard = read(folder, cursor)

    assert heard.names[-1] == "c"
    assert [gap[:2] for gap in heard.gaps] == [(1, 2)]
    assert "lines.jsonl.1.gz is damaged after line 1" in heard.gaps[0].reason


@pytest.mark.parametrize(
    "name", ["lines.jsonl.1", "lines-20260131.jsonl", "lines.jsonl-2026-01-31", "old.txt"]
)
def test_a_rotated_file_is_found_under_any_name_that_rotations_give(folder, name):
    folder.add("a")
    cursor = read(folder).cursor
    folder.add("b")
    folder.rotate().rename(folder.file.with_name(name))
    folder.add("c")

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["a", "b", "c"], [])


@pytest.mark.parametrize("number", [1, 50], ids=["shorter than the cursor", "longer than the cursor"])
def test_a_file_that_was_copied_and_truncated_while_nobody_read_is_read_on_in_its_copy(folder, number):
    folder.add("a", "b", "c")
    cursor = read(folder).cursor
    folder.add("d")
    folder.copy_and_truncate()
    new = [f"new{at}" for at in range(number)]
    folder.add(*new)

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["c", "d", *new], [])


def test_a_file_that_was_replaced_and_is_gone_leaves_a_gap_with_the_last_line_that_was_read(folder):
    folder.add("a", "b")
    cursor = read(folder).cursor
    folder.file.unlink()
    folder.add("c", "d", "e")

    heard = read(folder, cursor)

    assert heard.names == ["c", "d", "e"]
    [gap] = heard.gaps
    assert gap[:2] == (2, 3)
    assert (
        "no file beside it begins with the lines that were read: lines after 2 may be missing" in gap.reason
    )
    assert read(folder, heard.cursor).gaps == [], "the new file is known now"


def test_of_files_that_are_gone_those_that_came_later_are_read(folder):
    folder.add("before")
    folder.rotate()
    folder.add("a")
    cursor = read(folder).cursor
    gone = folder.rotate()
    folder.add("b")
    folder.rotate()
    folder.add("c")
    gone.with_name("lines.jsonl.2").unlink()

    heard = read(folder, cursor)

    assert heard.names == ["b", "c"], "not the one from before the cursor"
    assert len(heard.gaps) == 1


def test_a_file_with_the_same_lines_under_another_inode_is_the_same_file(folder):
    folder.add("a", "b")
    cursor = read(folder).cursor
    text = folder.file.read_bytes()
    folder.file.unlink()
    folder.file.write_bytes(text)
    folder.add("c")

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["b", "c"], [])


def test_a_new_file_with_the_same_inode_is_another_file(folder):
    folder.add("a", "b")
    cursor = read(folder).cursor
    os.truncate(folder.file, 0)
    folder.add("c", "d", "e")

    assert read(folder, cursor).names == ["c", "d", "e"]


# ----- what the previous version stored, and what people do


def test_a_cursor_of_the_previous_version_is_understood(folder):
    folder.add("a", "b", "c")

    heard = read(folder, Cursor(2))

    assert (heard.names, heard.gaps) == (["b", "c"], [])
    assert heard.cursor.mark is not None, "from now on the file is known again"


def test_a_file_that_is_shorter_than_a_cursor_of_the_previous_version_leaves_a_gap_and_is_read(folder):
    folder.add("a", "b")

    heard = read(folder, Cursor(5))

    assert heard.names == ["a", "b"]
    assert [gap[:2] for gap in heard.gaps] == [(5, 6)]
    assert read(folder, heard.cursor).names == ["b"]


def test_a_mark_that_nobody_can_read_counts_as_none(folder):
    folder.add("a", "b")

    assert read(folder, Cursor(2, {"base": "x"})).names == ["b"]


def test_an_edited_file_whose_lines_are_named_by_number_keeps_them_and_leaves_a_gap(folder):
    folder.add("a", "b", "c")
    cursor = read(folder, id=None).cursor
    folder.file.write_text(folder.file.read_text().replace('"b"', '"B"'))
    folder.add("d")

    heard = read(folder, cursor, id=None)

    assert heard.names == ["3", "4"], "lines 1 and 2 are not acted upon again"
    assert "was changed before line" in heard.gaps[0].reason


def test_an_edited_file_whose_lines_have_ids_is_read_again(folder):
    folder.add("a", "b", "c")
    cursor = read(folder).cursor
    folder.file.write_text(folder.file.read_text().replace('"b"', '"B"'))

    heard = read(folder, cursor)

    assert heard.names == ["a", "B", "c"]
    assert len(heard.gaps) == 1


def test_a_cursor_that_was_moved_to_the_start_reads_the_present_file_from_its_start(folder):
    folder.add("a")
    folder.rotate()
    folder.add("b", "c")
    mark = read(folder, file_cursor(folder)).cursor.mark

    assert read(folder, Cursor(None, mark)).names == ["b", "c"]


# ----- with a worker


def test_a_worker_acts_on_every_line_of_a_rotated_file_once(folder, memory):
    journal = Journal()
    folder.add("first")
    for lines, change in ((3, folder.rotate), (4, folder.copy_and_truncate), (2, folder.rotate), (5, None)):
        Worker([pipeline(Replay(folder.file, id="id", patience=SOON), journal)], store=Inline(memory)).run()
        folder.add(*(f"{len(acted(journal))}-{lines}-{at}" for at in range(lines)))
        if change:
            for old in folder.file.parent.glob("lines.jsonl.*"):
                old.rename(old.with_name(f"{old.name}0"))
            change()
    Worker([pipeline(Replay(folder.file, id="id", patience=SOON), journal)], store=Inline(memory)).run()

    assert len(acted(journal)) == 15
    assert set(acted(journal).values()) == {1}
    assert run(gaps(), Ports(memory)) == []


def test_a_worker_writes_down_that_a_rotated_file_is_gone(folder, memory):
    journal = Journal()
    folder.add("a", "b")
    for _ in range(2):
        Worker([pipeline(Replay(folder.file, id="id"), journal)], store=Inline(memory)).run()
        folder.file.unlink()
        folder.add("c")

    [gap] = run(gaps(), Ports(memory))
    assert (gap["since"], gap["until"]) == (2, 3)
    [cursor] = run(cursors(), Ports(memory))
    assert (cursor["at"], cursor["mark"]["base"]) == (4, 3)
    assert sorted(acted(journal)) == ["a", "b", "c"]


# ----- files that look alike, and look after look


class Looks:
    """A trail that is followed look by look: each shows all that is there, and no time passes between two."""

    def __init__(self, folder: Folder) -> None:
        self._trail = Trail(folder.file, 2**20, 0.0, by_number=False)
        assert self._trail.begin(NOWHERE) == Step()

    def __enter__(self) -> Looks:
        return self

    def __exit__(self, *_: object) -> None:
        self._trail.close()

    def look(self) -> dict[int, str]:
        """Return the lines that are shown, by their numbers."""
        shown: dict[int, str] = {}
        while not (step := self._trail.step()).waits:
            assert step.gap is None
            shown |= {line.number: json.loads(line.raw)["id"] for line in step.lines}
        return shown


def pack(file: Path) -> Path:
    """Pack a file, as gzip does: the packed one keeps its time."""
    packed, written = file.with_name(f"{file.name}.gz"), file.stat().st_mtime_ns
    packed.write_bytes(gzip.compress(file.read_bytes()))
    os.utime(packed, ns=(written, written))
    file.unlink()
    return packed


@pytest.mark.parametrize("way", ["rename", "copy", "pack"])
def test_of_files_that_begin_with_the_same_line_the_one_that_was_read_is_read_on(folder, way):
    folder.add("start")
    cursor = read(folder).cursor
    folder.add("a")
    rotated = folder.copy_and_truncate() if way == "copy" else folder.rotate()
    if way == "pack":
        pack(rotated)
    folder.add("start", "b")

    heard = read(folder, cursor)

    assert (heard.names, heard.gaps) == (["start", "a", "start", "b"], [])


def test_a_file_that_begins_with_the_same_line_after_it_was_truncated_is_read_on_in_its_copy(folder):
    folder.add("start")
    with Looks(folder) as looks:
        assert looks.look() == {1: "start"}
        folder.add("a")
        folder.copy_and_truncate()
        folder.add("start", "b")
        assert looks.look() == {2: "a", 3: "start", 4: "b"}


@pytest.mark.parametrize("later", [(), ("c",)], ids=["empty again", "filled again"])
def test_lines_of_an_empty_file_that_was_copied_and_truncated_before_the_next_look_are_read(folder, later):
    folder.add("a")
    with Looks(folder) as looks:
        looks.look()
        folder.copy_and_truncate("lines.jsonl.2")
        folder.touch(folder.file)
        assert looks.look() == {}
        folder.add("b")
        folder.copy_and_truncate("lines.jsonl.1")
        folder.touch(folder.file)
        folder.add(*later)
        assert looks.look() == dict(enumerate(["b", *later], 2))


def test_a_file_that_is_packed_before_its_rotation_is_noticed_is_not_read_twice(folder):
    folder.add("a")
    with Looks(folder) as looks:
        looks.look()
        pack(folder.rotate())
        folder.add("b")
        assert looks.look() == {2: "b"}


def test_a_file_that_was_written_to_after_its_empty_successor_is_not_read_twice(folder):
    folder.add("a")
    with Looks(folder) as looks:
        looks.look()
        rotated = folder.rotate()
        folder.touch(folder.file)
        folder.add("b", file=rotated)
        assert looks.look() == {2: "b"}
        folder.rotate()
        folder.add("c")
        assert looks.look() == {3: "c"}


def test_a_file_that_is_copied_and_truncated_before_its_first_line_is_whole_keeps_its_numbers(folder):
    folder.add("a")
    with Looks(folder) as looks:
        looks.look()
        folder.copy_and_truncate("lines.jsonl.2")
        folder.touch(folder.file)
        folder.add(text='{"id":')
        assert looks.look() == {}
        folder.add(text=' "b"}\n')
        folder.copy_and_truncate("lines.jsonl.1")
        folder.add("c")
        assert looks.look() == {2: "b", 3: "c"}


def test_a_backup_of_a_file_is_not_taken_for_a_rotated_one(folder):
    folder.add("a")
    cursor = read(folder).cursor
    with Looks(folder) as looks:
        looks.look()
        folder.add("b")
        folder.touch(Path(shutil.copy(folder.file, folder.file.with_name("lines.jsonl.1"))))
        folder.add("c")
        assert looks.look() == {2: "b", 3: "c"}

    assert read(folder, cursor, id=None).names == ["1", "2", "3"]


# ----- any order of all that


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_to_a_file_every_line_arrives(folder, seed):
    """Replay a failing seed by its number alone."""
    folder.add("1")
    draw, number, heard = random.Random(seed), 1, read(folder)
    for _ in range(30):
        match draw.randrange(6):
            case 0 | 1 | 2:
                for _ in range(draw.randrange(1, 4)):
                    number += 1
                    folder.add(f"{number}" + "x" * draw.choice((0, 0, 2000)))
            case 3:
                folder.rotate()
            case 4:
                for old in sorted(folder.file.parent.glob("lines.jsonl.*"), reverse=True):
                    old.rename(old.with_name(f"lines.jsonl.{int(old.name.split('.')[2]) + 1}"))
                folder.copy_and_truncate()
            case _:
                heard = _joined(heard, read(folder, heard.cursor))
    heard = _joined(heard, read(folder, heard.cursor))

    arrived = {name.rstrip("x") for name in heard.names}
    assert arrived == {str(at) for at in range(1, number + 1)}, f"seed {seed}"
    assert heard.gaps == [], f"seed {seed}"


def _joined(before: Heard, after: Heard) -> Heard:
    after.names = before.names + after.names
    after.gaps = before.gaps + after.gaps
    return after
