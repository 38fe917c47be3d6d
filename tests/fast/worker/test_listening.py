"""A worker answers questions about its health, readiness and metrics over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Page
from onefold.sources.function import Function as Reads
from onefold.worker import Worker
from onefold.worker.listening import Listening, address, bound
from onefold.worker.observing import Observation
from tests.fast.missing import hide
from tests.fast.worker.stage import FarSide, pipeline, records, store, until


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("9100", ("127.0.0.1", 9100)),
        (":9100", ("127.0.0.1", 9100)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("[::1]:9100", ("::1", 9100)),
    ],
)
def test_a_port_alone_means_loopback(written: str, meant: tuple[str, int]):
    assert address(written, "--listen") == meant


@pytest.mark.parametrize(
    "written", ["", "here", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1"]
)
def test_what_is_no_address_is_refused_with_where_it_came_from(written: str):
    with pytest.raises(Misconfigured, match=r"from --listen\): write 127"):
        address(written, "--listen")


def test_a_port_that_is_in_use_is_said_at_once():
    port = bound("0", "--listen").address[1]

    with pytest.raises(Misconfigured, match=f"port {port} cannot be had: address already in use"):
        bound(str(port), "--listen")


def test_an_address_that_others_reach_is_warned_about(caplog: pytest.LogCaptureFixture):
    bound("0.0.0.0:0", "--listen").close()
    bound("127.0.0.1:0", "--listen").close()

    assert caplog.text.count("whoever reaches") == 1


# ----- over the wire


async def asked(port: int, request: bytes) -> tuple[str, dict[str, str], str]:
    """Send bytes and read the answer to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    return status.removeprefix("HTTP/1.1 "), dict(line.split(": ", 1) for line in lines), body


async def got(port: int, *paths: str) -> list[tuple[str, str]]:
    """Return the status and the body of each of these pages."""
    answers = [await asked(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) for path in paths]
    return [(status, body) for status, _, body in answers]


def while_running(worker: Worker, when: Callable[[], bool], ask: Callable[[int], Awaitable[Any]]) -> Any:
    """Run a worker that listens, ask it once a condition holds, and stop it."""
    observation = Observation(worker, every=0.05)
    listening = Listening(bound("0", "a test"), observation)
    worker.beside += [observation.attend, listening.attend]
    port = int(listening.url.rpartition(":")[2])

    async def both() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(worker.arun)
            await until(when)
            answer = await ask(port)
            worker.stop()
        return answer

    return anyio.run(both)


@pytest.fixture
def worker() -> Worker:
    async def read(cursor: Cursor) -> Any:
        yield Page([*records(*range(30)), *records(*range(10))])
        await anyio.sleep_forever()

    return Worker([pipeline(Reads(read), FarSide(), duplicate_alarm=0.9)], store=store()[1])


def test_a_worker_that_read_everything_is_healthy_and_ready(worker: Worker):
    health, ready = while_running(worker, lambda: worker.ready, lambda port: got(port, "/health", "/ready"))

    assert health[0] == ready[0] == "200 OK"
    assert json.loads(health[1]) == {"alive": True, "worker": worker.name, "stopping": False}
    assert json.loads(ready[1])["sources"]["stage/feed"]["error"] is None


def test_a_worker_whose_source_fails_is_healthy_but_not_ready():
    async def read(cursor: Cursor) -> Any:
        yield Page(records(1))
        raise OSError("no such host")

    worker = Worker([pipeline(Reads(read), FarSide())], store=store()[1])
    health, ready = while_running(
        worker,
        lambda: bool(worker.tallies["stage"].errors),
        lambda port: got(port, "/health", "/ready"),
    )

    assert (health[0], ready[0]) == ("200 OK", "503 Service Unavailable")
    assert "no such host" in json.loads(ready[1])["sources"]["stage/feed"]["error"]


def test_metrics_are_those_of_the_tallies(worker: Worker):
    def counted() -> bool:
        return (
            worker.ready and worker.tallies["stage"].total("done") == 30 and not worker.readers[0].under_way
        )

    [(status, text)] = while_running(worker, counted, lambda port: got(port, "/metrics"))

    assert status == "200 OK"
    labels = '{pipeline="stage",source="feed"}'
    for line in (
        f"onefold_effects_done_total{labels} 30.0",
        f"onefold_claims_won_total{labels} 30.0",
        f"onefold_queue_depth{labels} 0.0",
        f"onefold_cursor_lag_seconds{labels} 0.0",
        'onefold_alarm{alarm="duplicates",pipeline="stage",source="feed"} 0.0',
        'onefold_parked_total{pipeline="stage",source="feed",why="in-doubt"} 0.0',
        'onefold_open_entries{pipeline="stage",state="parked"} 0.0',
        "onefold_ready 1.0",
        f"onefold_race_first_total{labels} 0.0",
    ):
        assert line in text
    for name in ("duplicates_total", "duplicate_rate", "claims_busy_total", "take_overs_total"):
        assert f"onefold_{name}" in text
    for name in ("claims_lost_total", "coverage_gaps", "unread_stretches", "race_late_seconds_bucket"):
        assert f"onefold_{name}" in text


def test_where_the_package_for_metrics_is_missing_that_is_said(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    hide(monkeypatch, "prometheus_client")

    [(status, text)] = while_running(worker, lambda: worker.ready, lambda port: got(port, "/metrics"))

    assert status == "501 Not Implemented"
    assert 'pip install "onefold[worker]"' in text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /health HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"GET\r\n\r\n", "404 Not Found"),
        (b"\x00\xff\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /health?x=1 HTTP/1.1\r\n\r\n", "200 OK"),
        (b"GET /" + b"x" * 9000 + b"\r\n\r\n", "431 Request Header Fields Too Large"),
    ],
)
def test_what_is_asked_wrongly_is_refused(worker: Worker, request_: bytes, status: str):
    answer = while_running(worker, lambda: worker.ready, lambda port: asked(port, request_))

    assert answer[0] == status
    assert answer[1]["Connection"] == "close"


def test_a_head_request_gets_no_body(worker: Worker):
    _, head, body = while_running(
        worker, lambda: worker.ready, lambda port: asked(port, b"HEAD /health HTTP/1.1\r\n\r\n")
    )

    assert int(head["Content-Length"]) > 0
    assert body == ""
