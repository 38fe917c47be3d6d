"""The HTTP sink: a repeat carries the same key and bytes, and every status is sorted by what it lets know."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from typing import Any

import pytest

from onefold.core.errors import Later, Misconfigured, Refused, Rejected
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.runtime.http import Answer, NoAnswer, _library
from onefold.sinks.http import Http, judged, later
from onefold.stores.memory import MemoryStore
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site
from tests.fast.sinks.stage import (
    NOBODY,
    PATIENT,
    entry,
    put_one,
    records,
    run_until,
    settled,
    states,
    worker,
)

RECORD = Record("r1", {"n": 1}, 1)


class Bank:
    """A service that knows idempotency keys: a repeat gets the first answer, other content a 422."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.asked: Counter[str] = Counter()
        self._known: dict[str, tuple[bytes, Response]] = {}

    def pay(self, request: Request) -> Response:
        key = request.headers["Idempotency-Key"]
        self.asked[key] += 1
        if key in self._known:
            body, answer = self._known[key]
            return answer if body == request.body else Response({"error": "key reused"}, 422)
        self.journal.note("paid", key=key, **request.json())
        answer = Response({"id": len(self._known)}, 201)
        self._known[key] = (request.body, answer)
        return answer

    @property
    def paid(self) -> Counter[int]:
        return Counter(line["n"] for line in self.journal.of("paid"))


@pytest.mark.parametrize("seed", range(5))
def test_a_service_that_cuts_stalls_and_fails_is_paid_once_per_record(seed):
    bank, memory = Bank(), MemoryStore()
    rates = {"cut-before": 0.15, "cut-after": 0.15, "half": 0.05, "error": 0.15, "busy": 0.1}
    with Site({("POST", "/pay"): bank.pay}, Mischief(seed, rates)) as site:  # type: ignore[arg-type]
        sink = Http(f"{site.url}/pay", window="1h")
        one = worker(records(40), sink, Inline(memory), terms=PATIENT)
        run_until(one, settled(memory, 40))

    assert bank.paid == Counter(range(40))
    assert states(memory, 40) == {"done": 40}
    assert max(bank.asked.values()) > 1, "nothing was repeated: the test shows nothing"


def test_every_attempt_repeats_the_same_bytes():
    bank, memory = Bank(), MemoryStore()
    made: list[int] = []

    def body(record: Record) -> Any:
        made.append(1)
        return {"n": 0, "drawn": len(made)}

    mischief = Mischief(0, {"cut-after": 1.0})
    with Site({("POST", "/pay"): bank.pay}, mischief) as site:
        sink = Http(f"{site.url}/pay", window="1h", body=body)
        one = worker(records(1), sink, Inline(memory), terms=PATIENT)

        def twice() -> bool:
            if sum(bank.asked.values()) >= 2:
                mischief.stop()
            return settled(memory, 1)()

        run_until(one, twice)

    assert len(made) == 1
    assert states(memory, 1) == {"done": 1}


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.mark.parametrize(
    ("given", "effect", "kind"),
    [
        (answer(200), "keyed", dict),
        (answer(204), "keyed", dict),
        (answer(301), "keyed", Rejected),
        (answer(400), "keyed", Rejected),
        (answer(401), "keyed", Refused),
        (answer(403), "keyed", Refused),
        (answer(404), "keyed", Rejected),
        (answer(408), "keyed", NoAnswer),
        (answer(409), "keyed", NoAnswer),
        (answer(422), "keyed", Rejected),
        (answer(429), "keyed", Refused),
        (answer(429, retry_after="7"), "one-shot", Later),
        (answer(500), "keyed", NoAnswer),
        (answer(503, retry_after="7"), "keyed", Later),
        (answer(503, retry_after="7"), "one-shot", NoAnswer),
        (answer(504), "one-shot", NoAnswer),
    ],
)
def test_a_status_is_sorted_by_what_it_lets_know(given, effect, kind):
    told = judged(given, "https://bank", effect, 0.0)

    assert type(told) is kind


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        (None, None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("999999", 3600.0),
        ("nan", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
    ],
)
def test_when_to_come_again_is_read_from_seconds_or_a_date(text, wait):
    assert later(text, 60.0) == wait


def test_a_receipt_keeps_what_was_answered_and_no_more_than_it_may():
    assert judged(answer(201, b'{"id":7}'), "b", "keyed", 0) == {"status": 201, "body": {"id": 7}}
    assert judged(answer(200, b"<p>"), "b", "keyed", 0) == {"status": 200, "body": "<p>"}
    with Site({("POST", "/pay"): lambda request: Response(b"x" * 1_000_000)}) as site:
        receipt = put_one(Http(f"{site.url}/pay", window="1h"), RECORD)

    assert receipt["cut"] is True
    assert len(receipt["body"]) == 16 * 1024


def test_a_service_that_is_not_there_was_certainly_not_asked():
    told = put_one(Http(f"http://{NOBODY}/pay?api_key=hunter2", window="1h"), RECORD)

    assert type(told) is Refused
    assert "hunter2" not in str(told)


def test_an_answer_that_does_not_come_in_time_says_nothing():
    never = Mischief(rates={"stall": 1.0}, stall=3600)
    with Site({("POST", "/pay"): lambda request: Response({})}, never) as site:
        told = put_one(Http(f"{site.url}/pay?api_key=hunter2", window="1h", timeout=3), RECORD)

    assert type(told) is NoAnswer
    assert "hunter2" not in str(told)


def test_a_credential_in_an_address_or_a_header_reaches_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    with Site({("POST", "/pay"): lambda request: Response({})}) as site:
        sink = Http(
            f"{site.url}/pay?api_key=hunter2", window="1h", headers={"Authorization": "Bearer s3cret"}
        )
        assert put_one(sink, RECORD)["status"] == 200

    assert caplog.records, "the client logs nothing: the test shows nothing"
    assert "hunter2" not in caplog.text
    assert "s3cret" not in caplog.text


def test_a_record_that_a_service_rejects_is_parked_immediately_and_its_neighbours_go_through():
    bank, memory = Bank(), MemoryStore()

    def picky(request: Request) -> Response:
        return Response({"error": "no such account"}, 404) if request.json()["n"] == 3 else bank.pay(request)

    with Site({("POST", "/pay"): picky}) as site:
        run_until(
            worker(records(10), Http(f"{site.url}/pay", window="1h"), Inline(memory)), settled(memory, 10)
        )

    assert states(memory, 10) == {"done": 9, "failed": 1}
    assert entry(memory, "r3").attempt == 1
    assert "no such account" in entry(memory, "r3").body


@pytest.mark.parametrize(
    "body",
    [lambda r: object(), lambda r: float("nan"), lambda r: b"raw", lambda r: "x" * 40_000],
)
def test_what_cannot_be_a_request_is_rejected_before_it_is_sent(body):
    with Site({}) as site:
        told = put_one(Http(f"{site.url}/pay", window="1h", body=body), RECORD)

        assert type(told) is Rejected
        assert site.requests == []


def test_a_large_request_is_sent_if_it_need_not_be_stored():
    with Site({("POST", "/pay"): lambda request: Response(len(request.body))}) as site:
        receipt = put_one(
            Http(f"{site.url}/pay", window="1h", stored=False, body=lambda r: "x" * 40_000), RECORD
        )

    assert receipt == {"status": 200, "body": 40_000}


def test_the_address_may_come_from_the_record_and_must_be_one():
    with Site({("POST", "/r1"): lambda request: Response({})}) as site:
        assert put_one(Http(lambda r: f"{site.url}/{r.id}", window="1h"), RECORD)["status"] == 200
    told = put_one(Http(lambda r: "file:///etc/passwd", window="1h"), RECORD)

    assert type(told) is Rejected


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"url": "https://bank"}, "needs window="),
        ({"url": "ftp://bank", "window": 1}, "no address"),
        ({"url": "https://bank", "effect": "joined"}, "commits nothing"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_when_it_is_made(settings, says):
    with pytest.raises(Misconfigured, match=says):
        Http(**settings)


def test_a_missing_client_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    _library.cache_clear()

    with pytest.raises(Misconfigured, match=r'pip install "onefold\[worker\]"'):
        Http("http://h/x", window="1h")


def test_a_key_is_the_same_in_every_process():
    seen: list[str] = []

    def note(request: Request) -> Response:
        seen.append(request.headers["Idempotency-Key"])
        return Response({})

    with Site({("POST", "/pay"): note}) as site:
        put_one(Http(f"{site.url}/pay", window="1h"), RECORD)
        put_one(Http(f"{site.url}/pay", window="1h"), RECORD)

    assert len(set(seen)) == 1
    assert len(seen[0]) == 64
    assert json.dumps(seen[0]).isascii()
