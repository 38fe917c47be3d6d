"""Where a torture takes place: for each scheme, how to get a fresh store that several processes can share.

A new store gets a row here, and nothing else of the torture changes. A scheme without a row is answered with
a sentence. Servers are not started here: whoever runs the torture says where one is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

import apsw

from onefold.core.errors import Misconfigured
from onefold.stores import SCHEMES
from onefold.stores.sql import migrations

BUSY_SECONDS = 5.0


class Caller(Protocol):
    """A connection of the caller's own, which a joined ledger takes part in; the caller commits."""

    @property
    def broken(self) -> tuple[type[Exception], ...]:
        """What the caller's library raises when the connection is lost."""

    @property
    def connection(self) -> object: ...

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Place(NamedTuple):
    """How to come by a fresh store of one kind, and by the connections that can be joined to it."""

    url: Callable[[str, Path], str]
    """Name a store of its own for every folder, on the server at a URL if there is one."""
    warm: Callable[[], object]
    """Load what every worker needs, before the first fork."""
    callers: tuple[Callable[[str], Caller], ...] = ()
    """Open a caller's own connection to the store at a URL, by each library that can be joined."""
    on_server: bool = False
    shared: bool = True
    """Whether another process finds the same store."""
    lend: Callable[[str], AbstractContextManager[object]] = nullcontext
    """Make what the URL of a store names, where the store does not do so itself, and remove it afterwards."""
    lease: float = 0.25
    """Seconds. Short leases make recovery quick; shorter than a store's worst answer they prove nothing."""
    life: float = 0.05
    """Seconds after its fork within which a worker is killed at random: about what a few keys take.

    Shorter from the first worker on that has ended before its moment."""


def place(scheme: str) -> Place:
    """Return where a torture of this store takes place, or say why there is none."""
    if scheme in PLACES:
        return PLACES[scheme]
    raise Misconfigured(f"{_why_not(scheme)}: {', '.join(PLACES)} can be tortured")


def place_alone(scheme: str) -> Place:
    """Return where a torture takes place that needs no second process."""
    return _MEMORY if scheme == "memory" else place(scheme)


def _why_not(scheme: str) -> str:
    if scheme == "memory":
        return "the store memory is not shared between processes, so that nothing outlives a death"
    if scheme in SCHEMES:
        return f"nobody has said yet how to get a fresh {scheme} store for a torture"
    return f"{scheme!r} names no store"


class _Stdlib:
    """The standard library's connection, used as its documentation does."""

    broken: tuple[type[Exception], ...] = ()

    def __init__(self, url: str) -> None:
        self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=BUSY_SECONDS)

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, bound).fetchall()

    def commit(self) -> None:
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()


class _Apsw:
    broken: tuple[type[Exception], ...] = ()

    def __init__(self, url: str) -> None:
        self.connection = apsw.Connection(url.removeprefix("sqlite:///"))
        self.connection.set_busy_timeout(int(BUSY_SECONDS * 1000))

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, bound).fetchall()

    def commit(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


class _Psycopg:
    def __init__(self, url: str) -> None:
        import psycopg

        self.broken = (psycopg.OperationalError,)
        self.connection = psycopg.connect(url)

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.replace("?", "%s"), bound)
        return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()


class _Pymysql:
    def __init__(self, url: str) -> None:
        import pymysql

        self.broken = (pymysql.OperationalError, pymysql.InterfaceError)
        self.connection = _pymysql(url, urlsplit(url).path.strip("/"))

    def rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), bound or None)
            return list(cursor.fetchall())

    def commit(self) -> None:
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()


def _name(folder: Path) -> str:
    return f"torture_{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"


def _own(server: str, folder: Path, parameter: str, value: str = "") -> str:
    """Name a place for every folder on a server, by a parameter of its URL."""
    return f"{server}{'&' if '?' in server else '?'}{parameter}={quote(value, safe='')}{_name(folder)}"


def _own_table(server: str, folder: Path) -> str:
    """Name a table or keyspace for every folder. All workers have one clock here, so there is no skew."""
    split = urlsplit(server)
    return split._replace(path=f"/{_name(folder)}", query=f"{split.query}&max_skew=0".lstrip("&")).geturl()


@contextmanager
def _schema(url: str) -> Iterator[None]:
    import psycopg

    name = b"torture_" + url.rpartition("torture_")[2].encode()
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(b"CREATE SCHEMA " + name)
    yield
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(b"DROP SCHEMA " + name + b" CASCADE")


def _own_database(server: str, folder: Path) -> str:
    return urlsplit(server)._replace(path=f"/{_name(folder)}").geturl()


@contextmanager
def _database(url: str) -> Iterator[None]:
    import pymongo

    yield
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        client.drop_database(urlsplit(url).path.strip("/"))


def _pymysql(url: str, database: str | None = None) -> Any:
    import pymysql

    from onefold.stores.mariadb.address import address

    return pymysql.connect(**address(url).settings, database=database, connect_timeout=5, ssl_disabled=True)


@contextmanager
def _maria_database(url: str) -> Iterator[None]:
    name = urlsplit(url).path.strip("/")
    with closing(_pymysql(url)) as connection:
        connection.query(f"CREATE DATABASE {name}")
    yield
    with closing(_pymysql(url)) as connection:
        connection.query(f"DROP DATABASE {name}")


@contextmanager
def _table(url: str) -> Iterator[None]:
    from onefold.stores.dynamodb.address import address
    from onefold.stores.dynamodb.client import connected

    yield
    with closing(connected(address(url))) as client:
        client.delete_table(TableName=address(url).table)


@contextmanager
def _keyspace(url: str) -> Iterator[None]:
    from onefold.stores.cassandra.address import address
    from onefold.stores.cassandra.client import clustered

    found = address(url)._replace(timeout=60.0)
    one_copy = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    with clustered(found) as cluster:
        cluster.connect().execute(f"CREATE KEYSPACE {found.keyspace} WITH replication = {one_copy}")
    yield
    with clustered(found) as cluster:
        cluster.connect().execute(f"DROP KEYSPACE {found.keyspace}")


def _models_of_aws() -> object:
    """Read what boto3 knows of DynamoDB, which takes longer than a worker lives; nobody is asked."""
    from onefold.stores.dynamodb.address import Address
    from onefold.stores.dynamodb.client import connected

    return connected(Address("local", "warm", "http://127.0.0.1:1"))


_MEMORY = Place(url=lambda _, folder: "memory:", warm=lambda: None, shared=False)

PLACES: dict[str, Place] = {
    "sqlite": Place(
        url=lambda _, folder: f"sqlite:///{folder / 'ledger.db'}",
        warm=lambda: migrations("sqlite"),
        callers=(_Stdlib, _Apsw),
    ),
    "postgresql": Place(
        url=lambda server, folder: _own(server, folder, "options", "-csearch_path="),
        warm=lambda: import_module("onefold.stores.postgresql.joined"),
        callers=(_Psycopg,),
        on_server=True,
        lend=_schema,
        lease=0.5,
        life=0.3,
    ),
    "mariadb": Place(
        url=_own_database,
        warm=lambda: import_module("onefold.stores.mariadb.joined"),
        callers=(_Pymysql,),
        on_server=True,
        lend=_maria_database,
        lease=0.5,
        life=0.3,
    ),
    "redis": Place(
        url=lambda server, folder: _own(server, folder, "prefix"),
        warm=lambda: import_module("onefold.stores.redis"),
        on_server=True,
        lease=0.5,
    ),
    "dynamodb": Place(
        url=_own_table,
        warm=_models_of_aws,
        on_server=True,
        lend=_table,
        lease=1.5,
        life=0.5,
    ),
    "mongodb": Place(
        url=_own_database,
        warm=lambda: import_module("onefold.stores.mongodb"),
        on_server=True,
        lend=_database,
        lease=1.0,
        life=0.3,
    ),
    "cassandra": Place(
        url=_own_table,
        warm=lambda: import_module("onefold.stores.cassandra"),
        on_server=True,
        lend=_keyspace,
        lease=2.0,
        life=0.5,
    ),
}
