"""Find a store by its URL. One folder or file per backend; none of them imports another.

This module knows names only; a backend and its client library are imported when they are asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from onefold.core.errors import Misconfigured
from onefold.core.ports import AsyncStore, Joined, Store

SCHEMES = {"memory": "memory", "sqlite": "sqlite", "postgresql": "postgresql"}
PLANNED = ("mariadb", "redis", "mongodb", "dynamodb", "cassandra")


def connect(url: str, create: bool = True) -> Store:
    """Return the store that a URL names; it is reached at first use."""
    store: Store = _backend(url).connect(url, create)
    return store


def aconnect(url: str, create: bool = True) -> AsyncStore:
    """Return the same store for awaiting."""
    store: AsyncStore = _backend(url).aconnect(url, create)
    return store


def ddl(url: str) -> str:
    """Return the schema that a store of this kind uses, without connecting."""
    text: str = _backend(url).ddl()
    return text


def join(connection: object) -> Joined:
    """Return a store inside the transaction of a caller's connection."""
    if type(connection).__module__.startswith("psycopg"):
        from onefold.stores.postgresql.joined import JoinedStore as JoinedPostgres

        return JoinedPostgres(cast("Any", connection))
    from onefold.stores.sqlite.joined import JoinedStore, adapt

    return JoinedStore(adapt(connection))


def _backend(url: str) -> ModuleType:
    scheme = url.partition(":")[0]
    if scheme in PLANNED:
        raise Misconfigured(f"the store {scheme} is planned, not built yet: use {_known()} for now")
    if scheme not in SCHEMES:
        near = get_close_matches(scheme, [*SCHEMES, *PLANNED], 1)
        hint = f"did you mean {near[0]}?" if near else f"these are known: {_known()}"
        raise Misconfigured(f"{scheme!r} names no store: {hint}")
    try:
        return import_module(f"onefold.stores.{SCHEMES[scheme]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("onefold"):
            raise
        raise Misconfigured(
            f'the store {scheme} needs {error.name}, which is not installed: pip install "onefold[{scheme}]"'
        ) from error


def _known() -> str:
    return ", ".join(SCHEMES)
