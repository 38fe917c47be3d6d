"""The Python peers, used as their documentation says: each by its decorator, on its native kind of function.

They live in `.venv-bench` only; where one is missing, its row says so. Nothing of theirs is copied here.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.ledger.by_hand import durability
from benchmarks.ledger.ours import Tally
from benchmarks.measure import Absent, Contestant, Keys

EXACTLY_ONCE, DBOS, IDEMKIT = "exactly-once", "dbos, one step", "idemkit, awaited"


def versions() -> dict[str, str]:
    """Say which versions of the peers are here."""
    return {name: _version(name) for name in ("exactly-once", "dbos", "idemkit")}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def exactly_once(path: Path, synchronous: str, stack: ExitStack) -> Contestant | Absent:
    """`@once(store, key=…)` on its SQLite store, which asks for NORMAL by itself.

    Its store has no option for another level, so FULL is set on its connection, from outside.
    """
    try:
        once, stores = import_module("exactly_once").once, import_module("exactly_once.stores.sqlite")
    except ImportError as error:
        return Absent(EXACTLY_ONCE, str(error))
    store = stores.SQLiteStore(str(path))
    stack.callback(store.close)
    store._conn.execute(f"PRAGMA synchronous = {synchronous}")
    level = durability(store._conn.execute("PRAGMA synchronous").fetchone()[0])
    tally = Tally()

    def effect(key: str) -> None:
        tally.ran += 1

    return Contestant(EXACTLY_ONCE, level, _one_by_one(once(store, key=lambda key: key)(effect), tally))


def dbos(path: Path, slow: int, stack: ExitStack) -> Contestant | Absent:
    """A workflow of one step, its id being the key.

    DBOS leaves SQLite's rollback journal on; the file is put into WAL beforehand, which is faster and equal.
    Its connections keep SQLite's own default level, FULL.
    """
    try:
        module = import_module("dbos")
    except ImportError as error:
        return Absent(DBOS, str(error))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        level = durability(connection.execute("PRAGMA synchronous").fetchone()[0])
    connection.close()
    logging.getLogger("dbos").setLevel(logging.ERROR)
    config = {"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"}
    module.DBOS(config=config)
    stack.callback(module.DBOS.destroy)
    tally = Tally()

    def effect() -> None:
        tally.ran += 1

    step = module.DBOS.step()(effect)

    def workflow() -> None:
        step()

    once = module.DBOS.workflow()(workflow)
    module.DBOS.launch()

    def named(key: str) -> None:
        with module.SetWorkflowID(key):
            once()

    return Contestant(DBOS, level, _one_by_one(named, tally), at_most=slow)


def idemkit(stack: ExitStack) -> Contestant | Absent:
    """`@idempotent` on its in-memory backend, from a coroutine: its blocking form is a bridge to a thread."""
    try:
        module = import_module("idemkit")
    except ImportError as error:
        return Absent(IDEMKIT, str(error))
    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    tally = Tally()

    async def effect(key: str) -> None:
        tally.ran += 1

    backend, config = module.InMemoryBackend(max_size=10**9), module.MethodConfig(key_fields=["key"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that no scope is set, which is meant
        once = module.idempotent(backend=backend, config=config)(effect)

    async def every(keys: Keys) -> None:
        for key in keys:
            await once(key)

    def play(keys: Keys) -> int:
        before = tally.ran
        loop.run_until_complete(every(keys))
        return tally.ran - before

    return Contestant(IDEMKIT, "memory", play)


def _one_by_one(effect: Callable[[str], Any], tally: Tally) -> Callable[[Keys], int]:
    def play(keys: Keys) -> int:
        before = tally.ran
        for key in keys:
            effect(key)
        return tally.ran - before

    return play
