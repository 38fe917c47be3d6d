"""Effects that are statements in a database of the user's: a function is called inside of a transaction.

*Joined* where the ledger stands in the same database: what the function writes and the mark commit together.
Elsewhere *idempotent*: what it writes must bear being written again, in any order. It opens and closes
transactions; it writes nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Later, Misconfigured, Unfinished, Unreachable
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.terms import Seconds
from onefold.drive.functions import kind, name_of, unfinished
from onefold.runtime import current
from onefold.tables import Database

AWAY: Seconds = 5.0
"""How long a database that does not answer is left alone."""

Writes = Callable[[Any, Claim, Record], Any]
Work = Sequence[tuple[Claim, Record]]


class Transaction:
    """Calls `write(connection, claim, record)`; what it returns is the receipt, what it raises rolls back."""

    batch = 50

    def __init__(self, database: Database, write: Writes, *, effect: Effect = "joined") -> None:
        if effect not in ("joined", "idempotent"):
            raise Misconfigured(f"a transaction is joined or idempotent, not {effect}: leave effect= out")
        self.effect: Effect = effect
        if kind(write) != "sync":
            raise Misconfigured(
                f"{name_of(write)} is {kind(write)}, and nothing would await it: write a plain def"
            )
        self._database = database
        self._write = write

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction and give its connection; leaving normally commits, raising rolls back."""
        return self._database.transaction()

    def write(self, connection: Any, work: Work) -> list[Any]:
        """Write what these records ask for, and give a receipt for each."""
        return [self._written(connection, claim, record) for claim, record in work]

    def _written(self, connection: Any, claim: Claim, record: Record) -> Any:
        """Call the function; what it left to run is an error inside the transaction, which rolls back."""
        result = self._write(connection, claim, record)
        if what := unfinished(result):
            raise Unfinished(
                claim.key, f"{name_of(self._write)} returned {what}", "do the work in the function"
            )
        return result

    async def put(self, work: Work) -> Sequence[Any | Exception]:
        """Write in transactions of its own, one for each record, so that a bad one stands for itself."""
        return [await current().blocking(self._alone, claim, record) for claim, record in work]

    def _alone(self, claim: Claim, record: Record) -> Any:
        try:
            with self.transaction() as connection:
                return self._written(connection, claim, record)
        except Unreachable as error:
            return Later(str(error), AWAY)
        except Exception as error:
            return error

    async def aclose(self) -> None:
        """Let go of the connection."""
        await current().blocking(self._database.close)
