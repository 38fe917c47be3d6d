"""dlt as an alternative: an incremental resource, merged by primary key into an SQLite file.

The effect is the row in the destination: dlt moves rows and calls nothing. One run extracts, normalizes and
loads a whole round, which suits dlt best; its tables are made before the clock starts. Telemetry is off.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import dlt

from benchmarks.ledger.by_hand import durability
from benchmarks.measure import Contestant, Keys
from benchmarks.worker.proof import Site, pages, proven

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"  # read when the first pipeline is made


def contestant(name: str, site: Site) -> Contestant:
    """Merge each round into a destination file of its own."""
    loads = Loads(name, site)
    loads.start()
    return Contestant(name, loads.durability(), loads.play, before=loads.start)


class Loads:
    """A pipeline and its destination, both made anew for each round."""

    def __init__(self, name: str, site: Site) -> None:
        self._name = name
        self._site = site

    def start(self) -> None:
        """Make a fresh file in WAL mode, and let a first run make dlt's tables in it."""
        path = self._site.path("dlt")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        self._pipeline = dlt.pipeline(
            path.name.replace("-", "_"),
            pipelines_dir=str(self._site.folder / "dlt-pipelines"),
            destination=dlt.destinations.sqlalchemy(f"sqlite:///{path}"),
            dataset_name="main",  # a dataset of another name would be a file of its own, without WAL
        )
        self._run([[{"id": "made by the first run", "n": 0}]])

    def play(self, keys: Keys) -> int:
        self._run(pages(keys))
        with self._pipeline.sql_client() as client:
            rows = client.execute_sql("SELECT id FROM records WHERE n > 0")
        return proven(self._name, [row[0] for row in rows or ()], keys)

    def durability(self) -> str:
        """Read the level back from a connection that dlt has opened."""
        with self._pipeline.sql_client() as client:
            return durability((client.execute_sql("PRAGMA synchronous") or [])[0][0])

    def _run(self, read: Iterable[list[dict[str, Any]]]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SQLAlchemy warns about a statement that dlt makes
            self._pipeline.run(records(read)).raise_on_failed_jobs()


SINCE = dlt.sources.incremental("n")


@dlt.resource(primary_key="id", write_disposition="merge")
def records(read: Iterable[list[dict[str, Any]]], n: Any = SINCE) -> Iterator[list[dict[str, Any]]]:
    """Give pages of records; dlt keeps the greatest `n` as its cursor and drops rows below it."""
    yield from read
