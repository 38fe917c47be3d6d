"""A server that pretends to be DynamoDB, with a ledger's table, and answers writes as a test wants it to.

It counts what it is asked, which no real server tells. A test says what becomes of a write: an answer, a
broken one, none at all, or a connection that ends.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from onefold.stores.dynamodb.schema import definition

__all__ = ["CUT", "Answer", "Pretender", "error", "pretender"]


class Answer(NamedTuple):
    """What a client hears."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


CUT = Answer(0)
"""The connection ends without an answer."""


def error(status: int, code: str, **more: Any) -> Answer:
    """Answer with an error as DynamoDB spells them."""
    told = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"told: {code}", **more}
    return Answer(status, json.dumps(told).encode())


class Pretender:
    """What was asked, and how writes are answered."""

    def __init__(self, write: Callable[[], Answer]) -> None:
        self.write = write
        self.asked: Counter[str] = Counter()
        self.signers: set[str] = set()
        self._lock = threading.Lock()

    def answer(self, operation: str, signer: str) -> Answer:
        with self._lock:
            self.asked[operation] += 1
            self.signers.add(signer)
        if operation == "DescribeTable":
            return Answer(body=json.dumps({"Table": described("ledger")}).encode())
        return self.write() if operation in ("PutItem", "DeleteItem") else Answer()


def described(table: str) -> dict[str, Any]:
    """Describe a ledger's table as AWS would."""
    told = definition(table)
    indexes = [{**index, "IndexStatus": "ACTIVE"} for index in told["GlobalSecondaryIndexes"]]
    return {**told, "TableStatus": "ACTIVE", "GlobalSecondaryIndexes": indexes}


@contextmanager
def pretender(write: Callable[[], Answer] = Answer) -> Iterator[tuple[str, Pretender]]:
    """Run a pretender for the length of a with-block; lend the URL of its ledger, and itself."""
    told = Pretender(write)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            signer = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
            answer = told.answer(operation, signer)
            if answer is CUT:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"dynamodb://us-east-1/ledger?endpoint=http://127.0.0.1:{server.server_port}", told
        finally:
            server.shutdown()
            thread.join()
