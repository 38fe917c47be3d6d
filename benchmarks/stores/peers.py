"""The Python peers on servers, used as their documentation says: each by its decorator.

They live in `.venv-bench` only; where one is missing, or has no such store, its row says so. Nothing of
theirs is copied here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measure import Absent
from benchmarks.stores.player import Loop, Player, Tally, in_threads, one_by_one

EXACTLY_ONCE, IDEMKIT = "exactly-once", "idemkit, awaited"
NAMES = (EXACTLY_ONCE, IDEMKIT)

Way = Callable[[str, int, str, ExitStack], Player]
"""Open a peer at a URL, for so many calls at once; the durability is the server's, if clients have none."""


def players(
    store: str, url: Callable[[str], str], tasks: int, level: str, stack: ExitStack
) -> list[Player | Absent]:
    """Open every peer, each at a place of its own, or say why one is not there."""
    return [_player(name, store, url, tasks, level, stack) for name in NAMES]


def _player(
    name: str, store: str, url: Callable[[str], str], tasks: int, level: str, stack: ExitStack
) -> Player | Absent:
    if why := WITHOUT.get((name, store)):
        return Absent(name, why)
    if (name, store) not in WAYS:
        return Absent(name, f"it has no store on {store}")
    try:
        return WAYS[name, store](url(name.partition(",")[0]), tasks, level, stack)
    except ImportError as error:
        return Absent(name, str(error))


def _exactly_once(store: Any, level: str, tasks: int, stack: ExitStack) -> Player:
    """Use one of its stores; it has one connection, and lets one thread at a time have it."""
    stack.callback(store.close)
    pool = stack.enter_context(ThreadPoolExecutor(tasks))
    tally = Tally()
    call = import_module("exactly_once").once(store, key=lambda key: key)(tally.effect)
    return Player(
        EXACTLY_ONCE,
        level,
        tally.counted(one_by_one(call)),
        tally.counted(in_threads([call] * tasks, pool)),
    )


def _exactly_once_on_postgresql(url: str, tasks: int, level: str, stack: ExitStack) -> Player:
    from benchmarks.stores.by_hand_postgresql import durability

    store = import_module("exactly_once").Store.postgres(url)
    return _exactly_once(store, durability(store._conn), tasks, stack)


def _exactly_once_on_redis(url: str, tasks: int, level: str, stack: ExitStack) -> Player:
    server, prefix = _divided(url)
    return _exactly_once(
        import_module("exactly_once").Store.redis(server, prefix=prefix), level, tasks, stack
    )


def _idemkit(backend: Any, loop: Loop, level: str, tasks: int, stack: ExitStack) -> Player:
    """Use one of its backends from coroutines: its blocking form is a bridge to a thread."""
    module = import_module("idemkit")
    stack.callback(lambda: loop.run(backend.aclose()))
    tally = Tally()

    async def effect(key: str) -> None:
        await tally.awaited()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that no scope is set, which is meant
        call = module.idempotent(backend=backend, config=module.MethodConfig(key_fields=["key"]))(effect)
    return Player(
        IDEMKIT,
        level,
        tally.counted(loop.one_by_one(call)),
        tally.counted(loop.in_tasks(call, tasks)),
    )


def _loop(stack: ExitStack) -> Loop:
    loop = Loop()
    stack.callback(loop.close)
    return loop


def _idemkit_on_postgresql(url: str, tasks: int, level: str, stack: ExitStack) -> Player:
    from benchmarks.stores.by_hand_postgresql import SETTINGS, said

    module, loop = import_module("idemkit.backends.postgres"), _loop(stack)
    loop.run(module.init_pg(url))
    backend = module.PostgresBackend.from_url(url)
    loop.run(backend._ensure_pool())
    read = said(*(loop.run(backend._pool.fetchval(f"SHOW {name}")) for name in SETTINGS))
    return _idemkit(backend, loop, read, tasks, stack)


def _idemkit_on_redis(url: str, tasks: int, level: str, stack: ExitStack) -> Player:
    module, loop = import_module("idemkit.backends.redis"), _loop(stack)
    server, prefix = _divided(url)
    return _idemkit(module.RedisBackend.from_url(server, namespace=prefix), loop, level, tasks, stack)


def _idemkit_on_mongodb(url: str, tasks: int, level: str, stack: ExitStack) -> Player:
    from benchmarks.stores.by_hand_mongodb import durability

    module, loop = import_module("idemkit.backends.mongo"), _loop(stack)
    backend = module.MongoBackend.from_url(url, database=urlsplit(url).path.strip("/"))
    loop.run(backend._ensure_collection())
    return _idemkit(backend, loop, durability(backend._client), tasks, stack)


def _divided(url: str) -> tuple[str, str]:
    """Take the prefix out of the URL of a store on Redis: others are told it apart."""
    split = urlsplit(url)
    return split._replace(query="").geturl(), f"{split.query.partition('=')[2]}:"


WAYS: dict[tuple[str, str], Way] = {
    (EXACTLY_ONCE, "postgresql"): _exactly_once_on_postgresql,
    (EXACTLY_ONCE, "redis"): _exactly_once_on_redis,
    (IDEMKIT, "postgresql"): _idemkit_on_postgresql,
    (IDEMKIT, "redis"): _idemkit_on_redis,
    (IDEMKIT, "mongodb"): _idemkit_on_mongodb,
}

WITHOUT = {
    (
        IDEMKIT,
        "dynamodb",
    ): "its store needs aioboto3, which holds back boto3 below the version that ours is tested with",
}
"""Stores that a peer has and that cannot be measured here."""
