"""HTTP connections live as long as their worker: one handshake, however many rounds are read."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest

from onefold import Pipeline, Worker
from onefold.core.cursor import Cursor
from onefold.runtime import http
from onefold.sinks.function import Function
from onefold.sources.poll import Poll
from onefold.stores import aconnect
from tests.servers.stores.tls import AUTHORITY, CERTIFICATES

ROUNDS = 5


class Secure(ThreadingHTTPServer):
    """A TLS server that counts its handshakes, and answers with one row more each time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERTIFICATES / "local.pem")
        self.handshakes = 0
        self.asked = 0
        self.counting = threading.Lock()
        self.enough = threading.Event()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def get_request(self):
        line, address = super().get_request()
        return self.context.wrap_socket(line, server_side=True, do_handshake_on_connect=False), address

    def finish_request(self, request, client_address) -> None:
        request.do_handshake()
        with self.counting:
            self.handshakes += 1
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address) -> None:
        """A client that leaves is no error of ours."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Secure

    def do_GET(self) -> None:
        with self.server.counting:
            self.server.asked += 1
            asked = self.server.asked
        self._say([{"id": f"r{at}", "timestamp": at} for at in range(asked)])
        if asked >= ROUNDS:
            self.server.enough.set()

    def _say(self, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def secure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    http._trust.cache_clear()
    server = Secure()
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        http._trust.cache_clear()


def test_a_worker_that_polls_makes_one_handshake_however_many_rounds_it_reads(secure):
    pipeline = Pipeline(
        "rows",
        sources={"feed": Poll(f"{secure.url}/rows", id="id", order="oldest-first", unit=None, every=0.01)},
        key=lambda record: record.id,
        sink=Function(lambda record: record.id),
    )
    worker = Worker([pipeline], store=aconnect("memory:"))

    async def until_enough() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(worker.arun)
            await anyio.to_thread.run_sync(secure.enough.wait)
            worker.stop()

    anyio.run(until_enough)

    assert secure.asked >= ROUNDS
    assert secure.handshakes == 1


def test_outside_of_a_worker_nothing_is_kept_open(secure):
    feed = Poll(f"{secure.url}/rows", id="id", order="oldest-first", unit=None, every=0.001)

    async def two_rounds() -> None:
        for _ in range(2):
            async for _ in feed.read(Cursor()):
                pass

    anyio.run(two_rounds)

    assert secure.handshakes == secure.asked >= 2
