"""Where orders go: a port, a paper exchange in a file, and an order service over HTTP.

An exchange takes an order under the caller's own id, takes it once however often it is sent, and finds it
again by that id. A real exchange comes behind the same port.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from onefold.apps._polymarket import amount, checked_price
from onefold.core.errors import Rejected
from onefold.core.terms import Seconds
from onefold.runtime import current
from onefold.runtime.http import Ask, NoAnswer, shown
from onefold.sinks.http import judged

Request = Mapping[str, Any]

ANSWER = 64 * 1024
"""Bytes of an answer of the order service that are read."""

_NOTHING = re.compile(r"0+(\.0*)?", re.ASCII)


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
        return await current().blocking(self._placed, order)

    async def find(self, client_id: str) -> Placed | None:
        return await current().blocking(self._found, client_id)

    async def aclose(self) -> None:
        """Nothing is kept open."""

    def _placed(self, order: Request) -> Placed:
        with closing(self._open()) as file, file:
            file.execute(
                "INSERT OR IGNORE INTO orders VALUES (?, ?, ?)",
                (order["client_id"], current().time(), json.dumps(dict(order))),
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
        self._timeout = timeout

    async def place(self, order: Request) -> Placed:
        """Send an order; without an answer it is looked for, and never made anew."""
        body = json.dumps(dict(order)).encode()
        try:
            headers = {"Content-Type": "application/json"}
            answer = await current().http(Ask("POST", self._url, headers, body, self._timeout, ANSWER))
            told = judged(answer, shown(self._url), "keyed", current().time())
            if isinstance(told, Exception):
                raise told
            return placed(told.get("body"), order)
        except NoAnswer:
            found = await self.find(order["client_id"])
            if found is None:
                raise
            return found

    async def find(self, client_id: str) -> Placed | None:
        url = f"{self._url}/{quote(client_id)}"
        answer = await current().http(Ask("GET", url, {}, b"", self._timeout, ANSWER))
        if answer.status == 404:
            return None
        if answer.status != 200 or not answer.whole:
            raise NoAnswer(f"{shown(self._url)} answered {answer.status} to a question for an order")
        try:
            told = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise NoAnswer(f"{shown(self._url)} answered with what is no JSON") from None
        return placed(told, {"client_id": client_id})

    async def aclose(self) -> None:
        """Its connections belong to the runtime."""


def placed(told: Any, order: Request | None = None) -> Placed:
    """Read an answer. A failure may come as a success of HTTP; one about another order is none to ours."""
    if not isinstance(told, dict) or not isinstance(told.get("success"), bool):
        raise NoAnswer(f"the order service answered {str(told)[:80]!r}, which says nothing")
    for name in ("client_id", "asset", "side"):
        wanted, shown = (order or {}).get(name), told.get(name)
        if wanted is not None and shown is not None and shown != wanted:
            raise NoAnswer(
                f"the order service answered about an order with {name} {shown!r:.60}, not {wanted}"
            )
    if not told["success"]:
        raise Rejected(f"the order was refused: {str(told.get('errorMsg'))[:200]}")
    missing = [name for name in ("orderID", "filled", "at") if told.get(name) is None]
    if missing:
        raise NoAnswer(f"the order service took an order and does not say {' and '.join(missing)} of it")
    if _NOTHING.fullmatch(str(told["filled"])):  # then there is no price either
        return Placed(str(told["orderID"]), Decimal(0), Decimal(0))
    try:
        size, price = amount(told["filled"], "filled"), checked_price(amount(told["at"], "at"))
    except ValueError as error:
        raise NoAnswer(f"the order service took an order, but its answer cannot be read: {error}") from None
    return Placed(str(told["orderID"]), size, price)
