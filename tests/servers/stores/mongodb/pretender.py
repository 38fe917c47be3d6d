"""A server that says what a test tells it, in MongoDB's own protocol: what no engine here can be made to say.

It stands for a secondary, a server with users, a full disk, a majority that is not there. What the store
makes of such answers is then seen through the real driver.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bson

Reply = dict[str, Any]

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013

PRIMARY: Reply = {
    "ok": 1.0,
    "isWritablePrimary": True,
    "ismaster": True,
    "helloOk": True,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000,
    "maxWriteBatchSize": 100000,
}


def page(*documents: Reply) -> Reply:
    return {"ok": 1.0, "cursor": {"id": 0, "ns": "x.y", "firstBatch": [*documents]}}


FINE = {"meta": page({"_id": "schema", "version": 1, "now": 9.0}), "find": page()}
"""A ledger without entries, and a server whose clock says 9 seconds after 1970."""


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Callable[[Reply], Reply]


class Conversation(socketserver.StreamRequestHandler):
    """Answers one message after another, until the client has no more to say."""

    server: Server

    def handle(self) -> None:
        while head := self.rfile.read(16):
            length, number, _, opcode = struct.unpack("<iiii", head)
            body = self.rfile.read(length - 16)
            asked: Reply = bson.decode(_document(body, opcode))
            told = bson.encode(self.server.answer(asked))
            self.wfile.write(_wrapped(told, number, opcode))


def _document(body: bytes, opcode: int) -> bytes:
    """Cut out the command of a message; the documents of a batch that follow it are not read."""
    # A query names its collection, and how much to skip and to return, before the document.
    start = body.index(b"\0", 4) + 9 if opcode == OP_QUERY else 5
    return body[start : start + struct.unpack_from("<i", body, start)[0]]


def _wrapped(document: bytes, number: int, opcode: int) -> bytes:
    if opcode == OP_QUERY:
        body, kind = struct.pack("<iqii", 8, 0, 0, 1) + document, OP_REPLY
    else:
        body, kind = struct.pack("<ib", 0, 0) + document, OP_MSG
    return struct.pack("<iiii", 16 + len(body), 0, number, kind) + body


@contextmanager
def pretending(hello: Reply | None = None, **replies: Reply) -> Iterator[str]:
    """Serve these replies by the name of the command, `meta` to who asks for the schema; give the address."""
    greeting = PRIMARY | (hello or {})

    def answer(asked: Reply) -> Reply:
        name = next(iter(asked))
        if name.lower() in ("hello", "ismaster"):
            return greeting
        topic = "meta" if asked[name] == "onefold_meta" else name
        return (FINE | replies).get(topic, {"ok": 1.0})

    with Server(("127.0.0.1", 0), Conversation) as server:
        server.answer = answer
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def refusal(code: int, reason: str = "because") -> Reply:
    return {"ok": 0.0, "errmsg": reason, "code": code}
