"""Which statements share a message to the server: hints of one partition leave in one unlogged batch.

Such a batch is a single mutation on one partition: it costs the server little more than one hint, and either
all of it is stored or nothing. Every other statement leaves alone. Lightweight transactions are each on a
partition of their own, and a batch of them would make unrelated keys wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from onefold.stores.cassandra.rows import Statement

BATCH_BYTES = 5 * 1024
"""The largest batch. By default Cassandra logs a warning above this size and rejects ten times as much."""

HINT_BYTES = 200
"""An estimate of a hint's size without its scope. Cassandra 2.1 needs most: it stores the id three times."""


def messages(asked: Sequence[Statement]) -> list[list[int]]:
    """Return the positions of the statements in each message. The first positions keep their order.

    Writing and removing hints are never mixed: a removal may fail without harm, a claim's hint may not.
    """
    sent: list[list[int]] = []
    filling: dict[tuple[str, int], tuple[list[int], int]] = {}
    for at, statement in enumerate(asked):
        part = _hint_part(statement)
        if part is None:
            sent.append([at])
            continue
        size = _size(statement)
        batch, filled = filling.get((statement.name, part), ([], 0))
        if not batch or filled + size > BATCH_BYTES:
            batch, filled = [], 0
            sent.append(batch)
        batch.append(at)
        filling[statement.name, part] = batch, filled + size
    return sent


def _hint_part(statement: Statement) -> int | None:
    """Return the partition of the hint that a statement writes or removes; None for any other statement."""
    if statement.name == "list":
        part: int = statement.args[0]
    elif statement.name == "unlist":
        part = statement.args[1]
    else:
        return None
    return part


def _size(statement: Statement) -> int:
    """Estimate how many bytes the server counts for a hint."""
    scope = statement.args[3] if statement.name == "list" else ""
    return HINT_BYTES + len(scope.encode())
