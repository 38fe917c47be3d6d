"""A caller's connection that a ledger joins, by whatever library: one face, and what its loss means.

It imports no library: what a driver's connection can do is the backend's to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from onefold.core.errors import Unanswered, Unreachable

NAME = "the joined database"
LOST = f"the connection to {NAME} is lost, and its transaction with it: roll back and start again"


class Caller(Protocol):
    """A connection of the caller's, by whatever library."""

    def driver(self) -> Any:
        """Return the driver's connection, inside a transaction that the library knows of."""

    def lose(self) -> None:
        """Let the library know that the connection is lost."""


class Alchemy:
    """A connection of SQLAlchemy's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def driver(self) -> Any:
        if self._connection.invalidated:
            raise Unreachable(LOST)
        if not self._connection.in_transaction():
            self._connection.begin()  # or its commit would find nothing to commit
        return self._connection.connection.driver_connection

    def lose(self) -> None:
        self._connection.invalidate()


@contextmanager
def losing(caller: Caller) -> Iterator[None]:
    """Tell a connection that does not answer as lost, to the library too."""
    try:
        yield
    except Unanswered as error:
        caller.lose()
        # Nothing is unknown here: what was not committed ends with its connection.
        raise Unreachable(LOST) from error
