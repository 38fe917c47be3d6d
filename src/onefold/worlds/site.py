"""An HTTP site on loopback, in a thread: routes answer, and mischief spoils some of the answers.

It knows no service. What a route answers, and what it writes into its journal, is the stand-in's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from onefold.worlds.mischief import Mischief, Trick


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    raw_query: str = ""
    """As it was sent, for those who ask for one name several times."""

    def json(self) -> Any:
        return json.loads(self.body)


class Response(NamedTuple):
    """What is answered; a body that is not bytes is sent as JSON."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Route = Callable[[Request], Response]


class Site:
    """Serves routes by (method, path); a path that ends in `*` takes whatever begins so."""

    def __init__(self, routes: Mapping[tuple[str, str], Route], mischief: Mischief | None = None) -> None:
        self.routes = dict(routes)
        self.mischief = mischief or Mischief()
        self.requests: list[Request] = []
        self._answers: dict[str, Response] = {}
        self._server = _server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="onefold-world", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> tuple[Response | None, Trick | None]:
        """Answer a request, or spoil the answer; None as an answer means that the line is cut."""
        self.requests.append(request)
        trick = self.mischief.draw()
        match trick:
            case "cut-before":
                return None, trick
            case "error":
                return Response({"error": "internal"}, 500), trick
            case "busy":
                return Response({"error": "too many requests"}, 429, {"Retry-After": "0.2"}), trick
            case "empty" if request.method == "GET":
                return Response([]), trick
            case "garbage" if request.method == "GET":
                return Response(b"<html>oops"), trick
            case "stale" if request.path in self._answers and request.method == "GET":
                return self._answers[request.path], trick
        response = self._route(request)
        self._answers[request.path] = response
        if trick == "stall":
            time.sleep(self.mischief.stall)
        return (None, trick) if trick == "cut-after" else (response, trick)

    def _route(self, request: Request) -> Response:
        for (method, path), route in self.routes.items():
            fits = request.path.startswith(path[:-1]) if path.endswith("*") else request.path == path
            if method == request.method and fits:
                answer: Response = route(request)
                return answer
        return Response({"error": "not found"}, 404)


class _Server(ThreadingHTTPServer):
    # With the usual 5, a burst of askers is reset, which is a misbehaviour that nobody asked for.
    request_queue_size = 256


def _server(site: Site) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body leave in two writes; the second would wait 40 ms for the asker's acknowledgement.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # the asker died while it spoke
                self.close_connection = True
                return
            query = dict(parse_qsl(split.query, keep_blank_values=True))
            request = Request(self.command, split.path, query, dict(self.headers.items()), body, split.query)
            self._send(*site.answer(request))

        do_POST = do_GET  # noqa: N815
        do_DELETE = do_GET  # noqa: N815

        def _send(self, response: Response | None, trick: Trick | None) -> None:
            if response is None:
                self.close_connection = True
                return
            raw = response.raw()
            self.send_response(response.status)
            headers = {
                "Content-Type": "application/json",
                **response.headers,
                "Content-Length": str(len(raw)),
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.close_connection = self.close_connection or trick == "half"
            self.wfile.write(raw[: len(raw) // 2] if trick == "half" else raw)

        def log_message(self, format: str, *args: Any) -> None:
            """A stand-in speaks through its journal alone."""

        def handle(self) -> None:
            with suppress(ConnectionError, TimeoutError):  # the asker left, as askers do
                super().handle()

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server
