"""Find a store by its URL. One folder or file per backend; none of them imports another.

This module knows names only; a backend and its client library are imported when they are asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from onefold.core.errors import Misconfigured
from onefold.core.ports import AsyncStore, Joined, Store

SCHEMES = {
    "memory": "memory",
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "mariadb": "mariadb",
    "redis": "redis",
    "dynamodb": "dynamodb",
    "mongodb": "mongodb",
    "cassandra": "cassandra",
}

ALIASES = {
    "rediss": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "mongodb+srv": "mongodb",
    "mysql": "mariadb",
}
"""Other names that a URL may begin with; what they change is the backend's to know."""

JOINS = {
    "psycopg": "postgresql",
    "sqlalchemy to postgresql": "postgresql",
    "pymysql": "mariadb",
    "aiomysql": "mariadb",
    "sqlalchemy to mariadb": "mariadb",
    "sqlalchemy to mysql": "mariadb",
}
"""Whose connections are joined by another store than the default one."""


class NotInstalled(Misconfigured):
    """The client library of a store is missing or cannot be loaded."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    @property
    def command(self) -> str:
        """The command that installs what is missing."""
        return f'pip install "onefold[{self.store}]"'

    def __str__(self) -> str:
        return f"the store {self.store} {self.reason}: {self.command}"


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
    # The default store refuses what nobody knows.
    store = next((JOINS[kind] for kind in _kinds(connection) if kind in JOINS), "sqlite")
    backend = import_module(f"onefold.stores.{store}.joined")
    joined: Joined = backend.JoinedStore(backend.adapt(connection))
    return joined


def _kinds(connection: object) -> list[str]:
    """Name a connection by the library of its class or a parent's; SQLAlchemy's by the database behind it."""
    libraries = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    if "sqlalchemy" not in libraries or not hasattr(connection, "exec_driver_sql"):
        return libraries
    return [f"sqlalchemy to {getattr(getattr(connection, 'dialect', None), 'name', '')}"]


def _backend(url: str) -> ModuleType:
    written = url.partition(":")[0]
    scheme = ALIASES.get(written, written)
    if "@" in written:
        # Not quoted: it may begin with a user and a password.
        raise Misconfigured(
            f"the URL begins with no scheme: write sqlite:///onefold.db, or one of {_known()}"
        )
    if scheme not in SCHEMES:
        near = get_close_matches(scheme, SCHEMES, 1)
        hint = f"did you mean {near[0]}?" if near else f"these are known: {_known()}"
        raise Misconfigured(f"{scheme!r} names no store: {hint}")
    try:
        return import_module(f"onefold.stores.{SCHEMES[scheme]}")
    except ImportError as error:
        if (error.name or "").startswith("onefold"):
            raise
        # A package may be there, and a library that it needs may be not; then the error names none.
        reason = f"needs {error.name}, which is not installed" if error.name else f"cannot be loaded: {error}"
        raise NotInstalled(scheme, reason) from error


def _known() -> str:
    return ", ".join(SCHEMES)
