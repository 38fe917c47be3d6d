"""The chat sink: a message arrives once or is in doubt, and every refusal is told apart from the others."""

from __future__ import annotations

import json
import logging
from collections import Counter
from random import Random
from typing import Any

import pytest

from onefold.core.errors import Later, Misconfigured, Refused, Rejected
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.runtime.http import Answer, NoAnswer
from onefold.sinks.chat import BadMarkup, Chat, ChatGone, Rates, escaped, judged
from onefold.stores.memory import MemoryStore
from onefold.testing.clock import FakeClock
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.mischief import Mischief
from tests.fast.sinks.stage import NOBODY, entry, put_one, records, run_until, settled, states, worker

AT_ONCE = Rates(0, 0, 0)
RECORD = Record("r1", {"title": "Flat <3 & more"}, 1)


def text(record: Record) -> str:
    return f"<b>{record.id}</b>"


def chat(world: ChatWorld, words: Any = text, **more: Any) -> Chat:
    settings = {"to": lambda r: "77", "rates": AT_ONCE, "url": world.url, **more}
    return Chat(TOKEN, words, **settings)


@pytest.mark.parametrize("seed", range(5))
def test_a_service_that_cuts_and_refuses_never_doubles_a_message_and_no_doubt_is_hidden(seed):
    memory = MemoryStore()
    rates = {"cut-before": 0.1, "cut-after": 0.1, "half": 0.05, "error": 0.1, "busy": 0.1}
    with ChatWorld(Mischief(seed, rates)) as world:  # type: ignore[arg-type]
        run_until(worker(records(40), chat(world), Inline(memory)), settled(memory, 40))

    arrived = world.arrived
    told = {f"r{n}": entry(memory, f"r{n}") for n in range(40)}
    doubts = [name for name, one in told.items() if one.why == "in-doubt"]
    assert max(arrived.values()) == 1
    assert doubts, "nothing was in doubt: the test shows nothing"
    for name, one in told.items():
        assert one.state == "done" or name in doubts
        if one.state == "done":
            assert arrived["77", f"<b>{name}</b>"] == 1


def test_one_record_for_several_chats_is_a_message_for_each():
    memory = MemoryStore()
    with ChatWorld() as world:
        world.blocked, world.unknown = {"2"}, {"3"}
        gone: list[tuple[str, str]] = []
        sink = chat(world, to=None, gone=lambda *told: gone.append(told))
        one = worker(records(3), sink, Inline(memory), each=lambda r: ["1", "2", "3"])
        run_until(one, lambda: all(_ended(memory, n, name) for n in range(3) for name in "123"))

    assert world.arrived == Counter({("1", f"<b>r{n}</b>"): 1 for n in range(3)})
    assert {entry(memory, "r1", name).why for name in "23"} == {"failed"}
    assert {name for name, _ in gone} == {"2", "3"}


def _ended(memory: MemoryStore, n: int, name: str) -> bool:
    one = entry(memory, f"r{n}", name)
    return one is not None and one.state in ("done", "parked")


def test_a_chat_that_is_flooded_is_left_alone_for_as_long_as_the_service_says():
    memory = MemoryStore()
    with ChatWorld() as world:
        world.floods["77"], world.retry_after = 3, 0.05
        run_until(worker(records(1), chat(world), Inline(memory)), settled(memory, 1))

    assert world.arrived == {("77", "<b>r0</b>"): 1}
    assert entry(memory, "r0").attempt == 1, "being sent away used up attempts"


def test_a_function_for_chats_that_are_gone_may_fail_and_nothing_is_in_doubt(caplog):
    def gone(chat: str, said: str) -> None:
        raise KeyError(chat)

    with ChatWorld() as world:
        world.blocked = {"77"}
        told = put_one(chat(world, gone=gone), RECORD)

    assert type(told) is ChatGone
    assert "gone= failed" in caplog.text


def test_a_message_that_waits_for_its_turn_has_not_begun_and_is_in_no_doubt():
    """A worker that dies while messages wait leaves one of them in doubt, not all."""
    memory = MemoryStore()
    with ChatWorld() as world:
        sink = chat(world, rates=Rates(everywhere=3600, person=0, group=0))
        one = worker(records(5), sink, Inline(memory), grace=0.1)
        run_until(one, lambda: sum(world.arrived.values()) == 1 and states(memory, 5).get("held", 0) == 4)
        waits = [entry(memory, f"r{n}") for n in range(5) if entry(memory, f"r{n}").state != "done"]

    assert [one.begun for one in waits] == [None] * 4


def test_titles_from_outside_are_escaped_and_read_as_they_were_written():
    with ChatWorld() as world:
        receipt = put_one(chat(world, lambda r: f"<b>{escaped(r.body['title'])}</b>"), RECORD)
        bad = put_one(chat(world, lambda r: f"<b>{r.body['title']}</b>"), RECORD)

    assert receipt == {"chat": "77", "messages": [1]}
    assert isinstance(bad, BadMarkup)
    assert "escaped()" in str(bad)
    [arrived] = world.journal.of("message")
    assert arrived["text"] == "<b>Flat &lt;3 &amp; more</b>"


def no(code: int, description: str, **more: Any) -> Answer:
    body = {"ok": False, "error_code": code, "description": description, **more}
    return Answer(code, {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (no(400, "Bad Request: chat not found"), ChatGone),
        (no(400, "Bad Request: can't parse entities: unexpected end tag"), BadMarkup),
        (no(400, "Bad Request: message is too long"), Rejected),
        (no(401, "Unauthorized"), Refused),
        (no(403, "Forbidden: bot was blocked by the user"), ChatGone),
        (no(403, "Forbidden: user is deactivated"), ChatGone),
        (no(404, "Not Found"), Refused),
        (no(429, "Too Many Requests", parameters={"retry_after": 7}), Later),
        (no(429, "Too Many Requests"), Later),
        (no(500, "Internal Server Error"), NoAnswer),
        (Answer(502, {}, b"<html>Bad Gateway"), NoAnswer),
        (Answer(200, {}, b"<html>log in to this network"), NoAnswer),
        (Answer(200, {}, b'{"ok":false,"error_code":403,"description":"Forbidden"}'), ChatGone),
    ],
)
def test_an_answer_is_sorted_by_what_it_lets_know(given, kind):
    assert type(judged(given, "77", 0.0)) is kind


def test_an_answer_that_is_cut_after_it_said_yes_says_yes():
    assert judged(Answer(200, {}, b'{"ok":true,"result":{"mess', False), "77", 0.0) is None
    assert judged(Answer(200, {}, b'{"ok":true,"result":{"message_id":5}}'), "77", 0.0) == 5


def test_how_long_to_stay_away_is_taken_from_the_answer():
    assert judged(no(429, "no", parameters={"retry_after": 7}), "77", 0.0).seconds == 7
    assert judged(no(429, "no", parameters=None), "77", 0.0).seconds == 5


def test_the_token_reaches_no_log_no_error_and_no_entry(caplog):
    caplog.set_level(logging.DEBUG)
    memory = MemoryStore()
    with ChatWorld(Mischief(3, {"cut-before": 0.3, "error": 0.3})) as world:
        sink = chat(world)
        run_until(worker(records(10), sink, Inline(memory)), settled(memory, 10))
    refused = put_one(Chat(TOKEN, text, to=lambda r: "77", url=f"http://{NOBODY}"), RECORD)

    secret = TOKEN.partition(":")[2]
    assert type(refused) is Refused
    assert any(record.name.startswith("httpx2") for record in caplog.records)
    stored = "".join(str(entry(memory, f"r{n}")) for n in range(10))
    assert secret not in caplog.text + stored + str(refused) + repr(vars(refused)) + repr(sink)


def test_a_long_text_is_cut_or_split_and_always_readable():
    long = "<b>" + "word &amp; " * 1500 + "</b>"
    with ChatWorld() as world:
        cut = put_one(chat(world, lambda r: long), RECORD)
        split = put_one(chat(world, lambda r: long, long="split"), RECORD)

    assert len(cut["messages"]) == 1
    assert len(split["messages"]) == 3
    assert len(world.journal.of("message")) == 4


def test_a_split_message_that_stops_half_way_is_in_doubt_and_not_repeated():
    memory = MemoryStore()

    class Breaks(ChatWorld):
        def answer(self, request):
            self.mischief.rates = {"cut-before": 1.0} if len(self.requests) == 1 else {}
            return super().answer(request)

    with Breaks() as world:
        sink = chat(world, lambda r: "word " * 1500, long="split")
        run_until(worker(records(1), sink, Inline(memory)), settled(memory, 1))

    assert states(memory, 1) == {"in-doubt": 1}
    assert "1 parts arrived" in entry(memory, "r0").body
    assert len(world.journal.of("message")) == 1


def test_a_split_message_that_is_told_to_wait_goes_on_afterwards():
    clock = FakeClock()

    class Floods(ChatWorld):
        def answer(self, request):
            self.floods["77"] = 1 if len(self.requests) == 1 else 0
            return super().answer(request)

    with Floods() as world:
        sink = chat(world, lambda r: "word " * 1500, long="split", clock=clock.awaited)
        receipt = put_one(sink, RECORD)

    assert len(receipt["messages"]) == 2
    assert clock.monotonic() >= 1001


@pytest.mark.parametrize("words", ["", "  ", pytest.param("x" * 200_000, id="long")])
def test_a_text_that_cannot_be_sent_is_rejected_before_it_is_begun(words):
    with ChatWorld() as world:
        told = put_one(chat(world, lambda r: words, long="split"), RECORD)

        assert type(told) is Rejected
        assert world.requests == []


def test_a_message_for_no_chat_is_rejected():
    with ChatWorld() as world:
        assert type(put_one(chat(world, to=None), RECORD)) is Rejected


@pytest.mark.parametrize(
    ("token", "more"), [("", {}), ("a/b", {}), ("1:a\n", {}), (TOKEN, {"long": "scroll"})]
)
def test_a_sink_that_cannot_work_is_refused_when_it_is_made(token, more):
    with pytest.raises(Misconfigured) as told:
        Chat(token, text, **more)

    assert "1:a" not in str(told.value)


def test_a_flood_to_one_chat_is_paced_and_sent_away_rather_than_queued_for_long():
    clock, random = FakeClock(), Random(1)
    with ChatWorld() as world:
        sink = chat(world, to=lambda r: random.choice("123"), rates=Rates(), clock=clock.awaited)
        answers = [put_one(sink, Record(f"r{n}", {}, n)) for n in range(30)]

    passed = [one for one in answers if isinstance(one, dict)]
    assert len(world.journal.of("message")) == len(passed)
    assert clock.monotonic() - 1000 >= len(passed) / 3 - 1
