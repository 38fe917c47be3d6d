"""`./dev bench stores`: each store on its server, against its statements by hand and the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Sizes, Table
from benchmarks.stores.contest import Contest, tables


def _postgresql(client: Any) -> str:
    from benchmarks.stores.by_hand_postgresql import SETTINGS, said
    from onefold.stores.postgresql.plan import Statement

    told = client.execute_many([Statement(f"SHOW {name}") for name in SETTINGS])
    return said(*(rows[0][0] for rows in told))


def _mongodb(client: Any) -> str:
    from benchmarks.stores.by_hand_mongodb import said

    return said(client.safety())


CONTESTS = (
    Contest(
        "postgresql",
        batch=1000,
        own_connections=True,
        durability=_postgresql,
        against_hand=0.8,
        against_peers=1.15,
        done_against_peers=1.5,
        batches_against_peers=25.0,
    ),
    Contest("mariadb", batch=1000, own_connections=True, against_hand=0.8),
    Contest("redis", batch=500, own_connections=True, against_hand=0.8),
    Contest("mongodb", batch=1000, durability=_mongodb, against_hand=0.8),
    Contest("dynamodb", batch=1000, share=0.1, against_hand=0.9),
    Contest("cassandra", batch=1000, share=0.2, against_hand=0.8),
)

SUBJECTS: dict[str, Callable[[Sizes, Path], Iterator[Table]]] = {
    contest.store: partial(tables, contest) for contest in CONTESTS
}
