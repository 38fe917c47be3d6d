"""An order book that takes orders under the caller's own id, and remembers every one.

A repeat of an id is answered with what became of the first; an order without an id is always a new one. The
journal has a line for every order that was truly taken.
"""

from __future__ import annotations

import threading
from typing import Any

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site

Order = dict[str, Any]


class OrderBook(Site):
    """Fills what it is sent at its limit, unless it was told to refuse."""

    def __init__(self, mischief: Mischief | None = None, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self.refuses: str | None = None
        """What it says to every new order, as a success of HTTP, as its models do."""
        self.orders: dict[str, Order] = {}
        self._guard = threading.Lock()
        super().__init__({("POST", "/orders"): self._place, ("GET", "/orders/*"): self._find}, mischief)

    def names(self) -> list[str]:
        """Name the trades that were copied, once for every order."""
        return [line["reference"] for line in self.journal.of("order")]

    def _place(self, request: Request) -> Response:
        order: Order = request.json()
        with self._guard:
            name = order.get("client_id") or f"anonymous-{len(self.orders)}"
            if name in self.orders:
                self.journal.note("repeat", client_id=name)
                return Response(self.orders[name])
            if self.refuses:
                return Response({"success": False, "errorMsg": self.refuses})
            # The id of the far side is drawn from the order, as a hash of what was signed.
            taken = {
                **order,
                "success": True,
                "orderID": f"0x{len(self.orders) + 1:064x}",
                "status": "matched",
            }
            self.orders[name] = {**taken, "filled": order["size"], "at": order["price"]}
            self.journal.note("order", **order)
            return Response(self.orders[name])

    def _find(self, request: Request) -> Response:
        name = request.path.rpartition("/")[2]
        with self._guard:
            found = self.orders.get(name)
        return Response(found) if found else Response({"error": "no such order"}, 404)
