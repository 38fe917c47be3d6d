"""Where orders go: a port, a paper exchange in a file, and an order service over HTTP.

An exchange takes an order under the caller's own id, takes it once however often it is sent, and finds it
again by that id. A real exchange comes behind the same port.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from onefold.core.errors import Rejected
from onefold.core.terms import Seconds
from onefold.drive.threads import in_thread
from onefold.sinks.http import judged
from onefold.sinks.web import NoAnswer, Web, shown

Request = Mapping[str, Any]


class Placed(NamedTuple):
    """What became of an order."""

    order: str
    size: Decimal
    price: Decimal


class Exchange(Protocol):
    """Takes orders. `place` raises `Rejected` if it will never take one, `Refused` if nothing happened."""

    window: Seconds | None
    """For how long an id is remembered; None for ever."""

    async def place(self, order: Request) -> Placed: ...

    async def find(self, client_id: str) -> Placed | None: ...

    async def aclose(self) -> None: ...


class Paper:
    """An exchange on paper: fills everything at its limit, and keeps its orders in a file of its own."""

    window: Seconds | None = None

    def __init__(self, file: Path) -> None:
        self._file = file.absolute()

    async def place(self, order: Request) -> Placed:
        return await in_thread(self._placed, order)

    async def find(self, client_id: str) -> Placed | None:
        return await in_thread(self._found, client_id)

    async def aclose(self) -> None:
        """Nothing is kept open."""

    def _placed(self, order: Request) -> Placed:
        with closing(self._open()) as file, file:
            file.execute(
                "INSERT OR IGNORE INTO orders VALUES (?, ?, ?)",
                (order["client_id"], time.time(), json.dumps(dict(order))),
            )
        found = self._found(order["client_id"])
        assert found is not None, "it was written just now"
        return found

    def _found(self, client_id: str) -> Placed | None:
        with closing(self._open()) as file:
            row = file.execute("SELECT body FROM orders WHERE client_id = ?", (client_id,)).fetchone()
        if row is None:
            return None
        order = json.loads(row[0])
        return Placed(f"paper-{client_id}", Decimal(order["size"]), Decimal(order["price"]))

    def _open(self) -> sqlite3.Connection:
        file = sqlite3.connect(self._file, timeout=10)
        file.execute("CREATE TABLE IF NOT EXISTS orders (client_id TEXT PRIMARY KEY, placed REAL, body TEXT)")
        return file


class Remote:
    """An order service: `POST /orders` takes an order, `GET /orders/ID` finds it."""

    def __init__(self, url: str, window: Seconds | None, timeout: Seconds = 10.0) -> None:
        self.window = window
        self._url = f"{url.rstrip('/')}/orders"
        self._web = Web(timeout, 64 * 1024)

    async def place(self, order: Request) -> Placed:
        """Send an order; without an answer it is looked for, and never made anew."""
        body = json.dumps(dict(order)).encode()
        try:
            answer = await self._web.send("POST", self._url, {"Content-Type": "application/json"}, body)
            told = judged(answer, shown(self._url), "keyed", time.time())
            if isinstance(told, Exception):
                raise told
            return placed(told.get("body"))
        except NoAnswer:
            found = await self.find(order["client_id"])
            if found is None:
                raise
            return found

    async def find(self, client_id: str) -> Placed | None:
        answer = await self._web.send("GET", f"{self._url}/{quote(client_id)}", {}, b"")
        if answer.status == 404:
            return None
        if answer.status != 200 or not answer.whole:
            raise NoAnswer(f"{shown(self._url)} answered {answer.status} to a question for an order")
        return placed(json.loads(answer.body))

    async def aclose(self) -> None:
        await self._web.aclose()


def placed(told: Any) -> Placed:
    """Read an answer; a failure may come as a success of HTTP."""
    if not isinstance(told, dict) or "success" not in told:
        raise NoAnswer(f"the order service answered {str(told)[:80]!r}, which says nothing")
    if not told["success"]:
        raise Rejected(f"the order was refused: {str(told.get('errorMsg'))[:200]}")
    missing = [name for name in ("orderID", "filled", "at") if told.get(name) is None]
    if missing:
        raise NoAnswer(f"the order service took an order and does not say {' and '.join(missing)} of it")
    return Placed(str(told["orderID"]), Decimal(str(told["filled"])), Decimal(str(told["at"])))
