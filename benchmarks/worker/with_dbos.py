"""DBOS as an alternative: a workflow of one step for each record, with the record's id as the workflow id.

Workflows are called one after another: started side by side they took longer on SQLite. DBOS leaves SQLite's
rollback journal on, so its file is put into WAL mode beforehand, which is faster for it; it keeps SQLite's
default level. It is launched before the clock starts.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from functools import partial

import dbos
from dbos import DBOS, SetWorkflowID

from benchmarks.ledger.by_hand import durability
from benchmarks.measure import Contestant, Keys
from benchmarks.worker.proof import Site, pages, proven

_acted: list[str] = []


@DBOS.step()
def act(id: str) -> None:
    """Do nothing but count."""
    _acted.append(id)


@DBOS.workflow()
def handle(id: str) -> None:
    """Handle one record."""
    act(id)


def contestant(name: str, site: Site) -> Contestant:
    """Run each round on a system database of its own."""
    logging.getLogger("dbos").setLevel(logging.ERROR)
    site.stack.callback(DBOS.destroy)
    level = _launch(site)
    return Contestant(
        name, level, partial(_play, name), at_most=10 * site.sizes.slow, before=partial(_launch, site)
    )


def _launch(site: Site) -> str:
    """Launch DBOS on a fresh file; return the level read back from a connection that DBOS has opened."""
    DBOS.destroy()
    path = site.path("dbos")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    config: dbos.DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "log_level": "ERROR",
    }
    launched = DBOS(config=config)
    DBOS.launch()
    with launched._sys_db.engine.connect() as connection:
        return durability(connection.exec_driver_sql("PRAGMA synchronous").scalar())


def _play(name: str, keys: Keys) -> int:
    _acted.clear()
    for page in pages(keys):
        for record in page:
            with SetWorkflowID(record["id"]):
                handle(record["id"])
    return proven(name, _acted, keys)
