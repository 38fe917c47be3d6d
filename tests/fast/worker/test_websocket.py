"""A websocket is listened to, watched, left and made again, and nothing that it missed stays missed."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Page, Record
from onefold.sources.websocket import Disconnected, Websocket
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Response, Site
from onefold.worlds.stream import Events, Stream
from tests.fast.missing import hide
from tests.waiting import PATIENCE, until

SUBSCRIBE = [{"subscribe": "events"}]


def parse(message: str | bytes) -> Record | None:
    event = json.loads(message)
    return None if "subscribed" in event else Record(event["id"], event, event["at"])


def history(events: Events, page: int = 10) -> Callable[[Cursor], AsyncIterator[Page]]:
    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        at = 0 if cursor.at is None else int(cursor.at)
        while shown := events.since(at, page):
            yield Page([Record(event["id"], event, event["at"]) for event in shown])
            at += len(shown)

    return backfill


class Heard:
    """What a source showed, collected until a condition holds."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.error: Exception | None = None

    @property
    def ids(self) -> list[str]:
        return [record.id for page in self.pages for record in page.records]

    async def life(self, source: Websocket, cursor: Cursor | None = None) -> None:
        """Live through one connection, to its end."""
        try:
            async with aclosing(source.read(cursor or Cursor())) as pages:
                async for page in pages:
                    self.pages.append(page)
        except Disconnected as error:
            self.error = error


def listen(source: Websocket, stream: Stream, then: Callable[[Heard], Any], cursor: Any = None) -> Heard:
    """Listen beside what happens: `then` runs once the line is up, and may wait; then the end is awaited."""
    heard = Heard()

    async def both() -> None:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(heard.life, source, cursor)
                await until(lambda: stream.connections > 0 or heard.error is not None)
                happening = then(heard)
                if inspect.isawaitable(happening):
                    await happening

    anyio.run(both)
    return heard


@pytest.mark.parametrize("binary", [False, True])
def test_what_is_sent_after_subscribing_is_heard_and_a_cut_line_says_so(binary):
    events = Events()

    async def then(heard: Heard) -> None:
        for _ in range(300):
            events.happen()
        await until(lambda: len(heard.ids) == 300)
        stream.spoil("cut-before")

    with Stream(events, binary=binary) as stream:
        heard = listen(Websocket(stream.url, parse, subscribe=SUBSCRIBE), stream, then)

    assert heard.ids == [f"e{n}" for n in range(300)]
    assert "cut" in str(heard.error)
    assert json.loads(events.journal.of("subscribed")[0]["message"]) == SUBSCRIBE[0]


def test_what_was_missed_comes_first_and_what_is_live_waits_for_it():
    events = Events()
    for _ in range(25):
        events.happen()

    def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        # Between subscribing and the first page of history, the stream goes on.
        for _ in range(5):
            events.happen()
        return history(events)(cursor)

    async def then(heard: Heard) -> None:
        await until(lambda: "e29" in heard.ids)
        events.happen()
        await until(lambda: "e30" in heard.ids)
        stream.spoil("cut-before")

    with Stream(events) as stream:
        # Once: what is read again would make more happen.
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill, lag=3, again="1h")
        heard = listen(source, stream, then, Cursor(13))

    assert heard.ids[:20] == [f"e{n}" for n in range(10, 30)]
    assert set(heard.ids) == {f"e{n}" for n in range(10, 31)}
    more = [page.more for page in heard.pages]
    assert more[:3] == [True, True, False]
    assert source.repeats


def confirms(message: str | bytes) -> bool:
    return "subscribed" in json.loads(message)


def test_history_is_read_only_when_the_subscription_is_confirmed():
    events = Events()
    subscribed: list[int] = []

    def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        subscribed.append(stream.connections)
        return history(events)(cursor)

    async def then(heard: Heard) -> None:
        await until(lambda: bool(subscribed))
        stream.spoil("cut-before")

    with Stream(events, hesitates=0.2) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, confirms=confirms, backfill=backfill)
        listen(source, stream, then)
    assert subscribed == [1]


@pytest.mark.parametrize("ends", ["nothing", "cut"])
def test_a_subscription_that_is_not_confirmed_ends_the_line(ends):
    def then(heard: Heard) -> None:
        if ends == "cut":
            stream.spoil("garbage")
            stream.spoil("cut-before")

    with Stream(Events(), confirms=False) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, confirms=confirms, opening=3)
        heard = listen(source, stream, then)

    assert heard.pages == []
    assert ("was cut" if ends == "cut" else "no subscription was confirmed in 3 s") in str(heard.error)


def test_without_a_confirmation_history_is_read_once_more_soon_after():
    assert Websocket("ws://127.0.0.1", parse, backfill=history(Events()))._again == 2.0
    assert Websocket("ws://127.0.0.1", parse, confirms=confirms)._again is None
    assert Websocket("ws://127.0.0.1", parse, confirms=confirms, lag=9, timed=True)._again == 9.0


def test_a_line_that_is_cut_during_the_back_fill_hands_on_what_came_until_then_and_no_sooner():
    events = Events()
    events.happen()
    begun, released = anyio.Event(), anyio.Event()

    async def then(heard: Heard) -> None:
        await begun.wait()
        events.happen()
        await until(lambda: stream.connections == 1)
        stream.spoil("cut-before")
        await until(lambda: stream.connections == 0)
        assert heard.ids == ["e0"]
        released.set()

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        yield Page([Record("e0", {}, 0)])
        begun.set()
        await released.wait()

    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill)
        heard = listen(source, stream, then)

    assert heard.ids == ["e0", "e1"]
    assert "cut" in str(heard.error)


@pytest.mark.parametrize("fails", ["raises", "hangs"])
def test_a_back_fill_that_fails_ends_the_connection_and_nothing_live_is_handed_on(fails):
    events = Events()

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        await until(lambda: len(events.since(0)) > 0)
        if fails == "hangs":
            await anyio.sleep_forever()
        if fails == "raises":
            raise OSError("no route to history")
        yield Page([])

    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill, patience=0.2)
        heard = listen(source, stream, lambda heard: events.happen())

    assert heard.pages == []
    says = "no route to history" if fails == "raises" else "nothing came for 0.2 s"
    assert says in str(heard.error)


def test_a_back_fill_that_ends_before_the_present_is_asked_for_the_rest():
    events = Events()
    for _ in range(35):
        events.happen()

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        shown = events.since(int(cursor.at or 0), 10)
        yield Page([Record(event["id"], event, event["at"]) for event in shown], more=len(shown) == 10)

    async def then(heard: Heard) -> None:
        await until(lambda: "e34" in heard.ids and not heard.pages[-1].more)
        stream.spoil("cut-before")

    with Stream(events) as stream:
        heard = listen(Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill), stream, then)
    assert list(dict.fromkeys(heard.ids)) == [f"e{n}" for n in range(35)]


def test_a_back_fill_that_leads_nowhere_ends_the_line():
    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        yield Page([Record("e5", {}, 5)], more=True)

    with Stream(Events()) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill)
        heard = listen(source, stream, lambda heard: None)
    assert "leads no further than 5" in str(heard.error)


def test_history_is_read_once_more_when_late_records_have_had_their_time():
    events = Events()
    reads = []

    def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        reads.append(cursor)
        return history(events)(cursor)

    async def then(heard: Heard) -> None:
        await until(lambda: len(reads) == 2)
        events.happen()
        await until(lambda: "e0" in heard.ids)
        stream.spoil("cut-before")

    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill, again=0.1)
        listen(source, stream, then, Cursor(5))

    assert reads == [Cursor(5), Cursor(5)]


def test_history_is_swept_again_and_again_while_the_line_lasts_from_what_was_reached():
    events = Events()
    reads = []

    def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        reads.append(cursor)

        async def pages() -> AsyncIterator[Page]:
            yield Page([Record(f"mark-{len(reads)}", {}, 10 * len(reads))])

        return pages()

    async def then(heard: Heard) -> None:
        await until(lambda: len(reads) >= 4)
        stream.spoil("cut-before")

    with Stream(events) as stream:
        source = Websocket(
            stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill, sweep=0.05, lag=3, again="1h"
        )
        listen(source, stream, then, Cursor(5))

    assert reads[:4] == [Cursor(2), Cursor(7), Cursor(17), Cursor(27)]


def test_a_half_open_line_is_noticed_within_two_pings():
    events = Events()
    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, ping=0.1)
        heard = listen(source, stream, lambda heard: stream.spoil("half-open"))

    assert "no answer to a ping for 0.1 s" in str(heard.error)


def test_a_line_that_answers_but_says_nothing_is_noticed():
    with Stream(Events()) as stream:
        # Two pings take longer than that, so a ping without an answer is not what ends the line.
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, ping=2, silence=3)
        heard = listen(source, stream, lambda heard: None)

    assert "nothing came for 3 s" in str(heard.error)


def test_what_is_no_record_is_set_aside_and_the_line_lives_on():
    events = Events()
    mischief = Mischief(1, {"garbage": 1.0})

    async def then(heard: Heard) -> None:
        events.happen()
        await until(lambda: heard.ids == ["e0"])
        stream.spoil("cut-before")

    with Stream(events, mischief) as stream:
        heard = listen(Websocket(stream.url, parse, subscribe=SUBSCRIBE), stream, then)

    [broken] = [one for page in heard.pages for one in page.broken]
    assert broken.raw == "<html>oops"
    assert "JSONDecodeError" in broken.reason


def test_a_record_that_no_store_could_keep_is_set_aside_live_and_from_history():
    events = Events()
    bad = [
        Record("nan", {"n": float("nan")}, 1),
        Record("half", {"n": "\ud800"}, 1),
        Record("when", {}, float("nan")),
    ]

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        yield Page([Record("old", {}, 1), *bad])

    def spoiled(message: str | bytes) -> list[Record]:
        found = parse(message)
        return [found, *bad] if found else []

    async def then(heard: Heard) -> None:
        await until(lambda: heard.ids == ["old"])
        events.happen()
        await until(lambda: heard.ids == ["old", "e0"])
        stream.spoil("cut-before")

    with Stream(events) as stream:
        source = Websocket(stream.url, spoiled, subscribe=SUBSCRIBE, backfill=backfill, again="1h")
        heard = listen(source, stream, then)

    reasons = [one.reason for page in heard.pages for one in page.broken]
    assert len(reasons) == 2 * len(bad)
    assert {reason[:8] for reason in reasons} == {"nan stan", "a text i", "it has n"}


def test_a_parse_that_gives_no_record_is_told_so_and_one_that_gives_up_ends_the_line():
    events = Events()

    def wrong(message: str | bytes) -> Any:
        if json.loads(message).get("id") == "e1":
            raise Disconnected("the subscription was refused")
        return [5]

    def then(heard: Heard) -> None:
        events.happen()
        events.happen()

    with Stream(events) as stream:
        heard = listen(Websocket(stream.url, wrong, subscribe=SUBSCRIBE), stream, then)

    assert all("give a Record" in one.reason for page in heard.pages for one in page.broken)
    assert "refused" in str(heard.error)


def test_a_message_that_is_too_large_ends_the_line_and_says_how_large_is_allowed():
    events = Events()
    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, largest=1000)
        heard = listen(source, stream, lambda heard: events.happen(text="x" * 2000))

    assert "larger than 1000 bytes" in str(heard.error)


def test_a_buffer_that_overflows_ends_the_line_and_everything_before_that_is_handed_on():
    events = Events()
    begun, released = anyio.Event(), anyio.Event()

    async def backfill(cursor: Cursor) -> AsyncIterator[Page]:
        begun.set()
        await released.wait()
        yield Page([])

    async def then(heard: Heard) -> None:
        await begun.wait()
        for _ in range(50):
            events.happen()
        await until(lambda: stream.connections == 0)
        released.set()

    with Stream(events) as stream:
        source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, backfill=backfill, buffer=20)
        heard = listen(source, stream, then)

    assert "messages wait" in str(heard.error)
    assert heard.ids == [f"e{n}" for n in range(len(heard.ids))]
    assert 19 <= len(heard.ids) <= 50


def test_a_slow_reader_without_history_makes_the_far_side_wait_and_loses_nothing():
    events = Events()
    heard = Heard()
    ping = 2.0

    async def slowly(source: Websocket) -> None:
        async with aclosing(source.read(Cursor())) as pages:
            async for page in pages:
                heard.pages.append(page)
                if len(heard.pages) == 1:
                    # Longer than two pings: a full buffer must not look like a dead line.
                    await anyio.sleep(2.5 * ping)

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                source = Websocket(stream.url, parse, subscribe=SUBSCRIBE, buffer=2, ping=ping)
                group.start_soon(slowly, source)
                await until(lambda: stream.connections == 1)
                for _ in range(400):
                    events.happen()
                await until(lambda: len(heard.ids) == 400)
                group.cancel_scope.cancel()

    with Stream(events) as stream:
        anyio.run(main)
    assert heard.ids == [f"e{n}" for n in range(400)]


def test_a_slow_reader_that_is_closed_by_the_far_side_is_told_its_code():
    events = Events()
    with Stream(events, backlog=5) as stream:
        heard = listen(
            Websocket(stream.url, parse, subscribe=SUBSCRIBE),
            stream,
            lambda heard: [events.happen() for _ in range(200)],
        )

    assert "code 1008 (slow consumer)" in str(heard.error)


def test_a_message_is_said_again_and_again_to_keep_the_line_alive():
    events = Events()
    with Stream(events) as stream:

        async def then(heard: Heard) -> None:
            await until(lambda: len(events.journal.of("heard")) >= 2)
            stream.spoil("cut-before")

        listen(Websocket(stream.url, parse, subscribe=SUBSCRIBE, keepalive=(0.02, "PING")), stream, then)
    assert {line["message"] for line in events.journal.of("heard")} == {"PING"}


def test_a_redirect_is_not_followed_because_only_the_first_address_was_checked():
    events = Events()
    with Stream(events) as stream:
        elsewhere = Response({}, 302, {"Location": stream.url})
        with Site({("GET", "/feed"): lambda request: elsewhere}) as site:
            heard = Heard()
            anyio.run(heard.life, Websocket(site.url.replace("http", "ws") + "/feed", parse))

    assert "302" in str(heard.error)
    assert events.journal.of("connected") == []


def test_nobody_there_is_said_without_the_secrets_of_the_address():
    heard = Heard()
    anyio.run(heard.life, Websocket("ws://ann:hunter2@127.0.0.1:9/v2?apikey=hunter2", parse))

    assert "cannot be connected" in str(heard.error)
    assert "hunter2" not in str(heard.error)
    assert heard.error is not None
    assert heard.error.__cause__ is None


def test_without_the_package_the_command_that_brings_it_is_named(monkeypatch):
    hide(monkeypatch, "websockets")

    with pytest.raises(Misconfigured, match=r'pip install "onefold\[worker\]"'):
        Websocket("ws://127.0.0.1:1", parse)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"url": "http://example.org/feed"}, "ws://, wss://"),
        ({"url": "ws://"}, "names no host"),
        ({"url": "ws://[::1/feed"}, "is no URL"),
        ({"buffer": 0}, "buffer is 0"),
        ({"largest": True}, "largest is True"),
        ({"ping": 0}, "ping is 0"),
        ({"silence": -1}, "silence is -1"),
    ],
)
def test_a_websocket_that_cannot_work_is_refused_when_it_is_made(change, says):
    with pytest.raises(Misconfigured, match=says.replace("(", r"\(")):
        Websocket(**{"url": "ws://127.0.0.1/feed", "parse": parse, **change})
