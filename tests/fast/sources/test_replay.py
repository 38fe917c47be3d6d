"""Replaying JSON lines: each a record at its number, whatever is wrong with its neighbours."""

import asyncio
import io
import json
import os
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Page
from onefold.core.wire import Unreadable
from onefold.drive import Inline
from onefold.sources.lines import CHUNK, Line, Lines
from onefold.sources.replay import Replay
from onefold.testing.runtime import VirtualRuntime
from onefold.testing.virtual import VirtualLoop
from onefold.worker import Worker
from onefold.worlds.journal import Journal
from tests.fast.sources.reading import acted, parked, pipeline


def read(source, at=None):
    async def whole():
        return [page async for page in source.read(Cursor(at))]

    return anyio.run(whole)


def found(pages):
    return [(one.id, one.at, one.body) for page in pages for one in page.records]


def reasons(pages):
    return [one.reason for page in pages for one in page.broken]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "lines.jsonl"


def test_every_line_is_a_record_at_its_number(file):
    file.write_text('{"n": 1}\n\n[2]\r\n"ü"\n')
    pages = read(Replay(file))

    assert found(pages) == [("1", 1, {"n": 1}), ("3", 3, [2]), ("4", 4, "ü")]
    assert [page.more for page in pages] == [True, False]


def test_a_file_is_read_from_the_line_of_the_cursor_on(file):
    file.write_text("".join(f"{number}\n" for number in range(1, 10)))

    assert [at for _, at, _ in found(read(Replay(str(file)), at=7))] == [7, 8, 9]


def test_a_record_is_named_by_a_field_or_a_function(file):
    file.write_text('{"a": {"b": "x"}}\n')

    assert [found(read(Replay(file, id=how)))[0][0] for how in ("a.b", lambda row: row["a"]["b"] * 2)] == [
        "x",
        "xx",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "line 2: it is no JSON"),
        (b"\xff", "line 2: it is no UTF-8"),
        (b'{"id": NaN}', "line 2: NaN stands in it"),
        (b'{"id": 1, "id": 2}', "line 2: its key 'id' stands twice"),
        (b'{"id": null}', "line 2: it has no id, but null"),
        (b"[" * 10_000, "line 2: it is nested without end"),
        (b'{"id": "' + b"x" * 1_100_000 + b'"}', "line 2: it is longer than 1048576 bytes: see line_limit="),
    ],
)
def test_a_broken_line_is_set_apart_with_its_number_and_holds_nobody_up(file, line, reason):
    file.write_bytes(b'{"id": 1}\n' + line + b'\n{"id": 3}\n')
    pages = read(Replay(file, id="id"))

    assert [name for name, _, _ in found(pages)] == ["1", "3"]
    [told] = reasons(pages)
    assert told.startswith(reason)
    assert all(len(one.raw) <= 2000 for page in pages for one in page.broken)


def test_a_last_line_that_is_only_without_its_end_is_read(file):
    file.write_text("1\n2")

    assert [body for _, _, body in found(read(Replay(file, patience=0.01)))] == [1, 2]


def test_a_torn_last_line_is_reported_and_read_when_it_is_whole(file):
    file.write_text('1\n{"a": ')
    torn = read(Replay(file, patience=0.01))
    file.write_text('1\n{"a": 2}\n')

    assert reasons(torn)[0].endswith("; the line has no end")
    assert found(read(Replay(file), at=1)) == [("1", 1, 1), ("2", 2, {"a": 2})]


def test_a_torn_last_line_is_waited_for(file):
    file.write_text('1\n{"a": ')
    loop, pages = VirtualLoop(1), list[Page]()

    async def finish() -> None:
        await asyncio.sleep(5)
        with file.open("a") as torn:
            torn.write("2}\n")

    async def both() -> None:
        async with VirtualRuntime(loop).running(), anyio.create_task_group() as group:
            group.start_soon(finish)
            pages.extend([page async for page in Replay(file, patience=10).read(Cursor())])

    loop.run(both())

    assert [body for _, _, body in found(pages)] == [1, {"a": 2}]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_they_are_cut_into_chunks(size):
    text = b"a\n\nlong line\nlimit\nbb\nend"
    lines = Lines(5)
    cut = [line for at in range(0, len(text), size) for line in lines.take(text[at : at + size])]

    assert [*cut, *lines.end()] == [
        Line(1, b"a"),
        Line(2, b""),
        Line(3, b"long ", is_long=True),
        Line(4, b"limit"),
        Line(5, b"bb"),
        Line(6, b"end", is_whole=False),
    ]


def test_no_more_of_a_huge_line_is_held_than_the_limit():
    lines = Lines(1000)
    for _ in range(100):
        lines.take(b"x" * CHUNK)

    [line] = lines.take(b"\n")
    assert (len(line.raw), line.is_long) == (1000, True)


def test_any_stream_of_bytes_is_read_whole_whatever_the_cursor_says():
    assert [body for _, _, body in found(read(Replay(io.BytesIO(b"1\n2\n")), at=50))] == [1, 2]


def test_a_file_that_is_not_there_is_said(file):
    with pytest.raises(Unreadable, match=r"lines\.jsonl cannot be read: No such file"):
        read(Replay(file))


def test_a_limit_of_nothing_is_refused(file):
    with pytest.raises(Misconfigured, match="line_limit is 0"):
        Replay(file, line_limit=0)


def test_a_worker_acts_on_every_line_once_and_ends(file, memory):
    journal = Journal()
    file.write_text("".join(json.dumps({"n": number}) + "\n" for number in range(1000)) + "oops\n")
    for _ in range(2):
        Worker([pipeline(Replay(file), journal)], store=Inline(memory)).run()

    assert len(acted(journal)) == 1000
    assert set(acted(journal).values()) == {1}
    assert len(parked(memory)) == 1


def test_lines_on_standard_input_are_handed_on_as_they_come(monkeypatch):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # a read that waited for more would end the reading instead
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as writer:
        monkeypatch.setattr("sys.stdin", stdin)

        async def main():
            pages: Any = Replay("-").read(Cursor())
            for number in (1, 2, 3):
                writer.write(b"%d\n" % number)
                assert found([await anext(pages)]) == [(f"{number}", number, number)]
            writer.close()
            assert found([page async for page in pages]) == []

        anyio.run(main)


def test_a_file_that_is_followed_shows_lines_that_come_later_and_none_before_its_end(file):
    file.write_text("1\n2\n")

    async def main():
        pages: Any = Replay(file, follow=0.001).read(Cursor(2))
        assert [one.at for one in (await anext(pages)).records] == [2]
        assert (await anext(pages)).more is False
        with file.open("a") as more:
            more.write("3\n[4")
            more.flush()
            assert found([await anext(pages)]) == [("3", 3, 3)]
            more.write("4]\n")
        assert found([await anext(pages)]) == [("4", 4, [44])]
        await pages.aclose()

    assert Replay(file, follow=1).finite is False
    anyio.run(main)


def test_only_a_file_can_be_followed():
    with pytest.raises(Misconfigured, match="only a file can be followed"):
        Replay("-", follow="1s")
