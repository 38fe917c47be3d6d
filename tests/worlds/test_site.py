"""The stand-ins' HTTP site: what it does with askers that die while they speak."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from onefold.worlds.site import Request, Response, Site


def test_a_question_that_was_cut_off_reaches_no_route_and_no_log(capfd):
    heard: list[Request] = []

    def route(request: Request) -> Response:
        heard.append(request)
        return Response(request.json())

    with Site({("POST", "/said"): route}) as site:
        whole = _posted(site.url, b'{"a": 1}', length=8)
        torn = _posted(site.url, b'{"a"', length=8)

    assert whole.endswith(b'\r\n\r\n{"a": 1}')
    assert torn == b""
    assert [request.body for request in heard] == [b'{"a": 1}']
    assert "Traceback" not in capfd.readouterr().err


def _posted(url: str, body: bytes, length: int) -> bytes:
    """Say that many bytes will come, send these, hang up, and read what is answered."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as line:
        head = f"POST /said HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        line.sendall(head.encode() + body)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))
