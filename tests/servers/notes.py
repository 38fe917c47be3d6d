"""Writes numbers to each kind of server and reads them back, by the bare client, to test the launchers.

A write returns when the server acknowledged it, at the strictest setting a client can ask for. Nothing of
Onefold is used, so that a wrong store and a wrong launcher cannot excuse each other.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Notes(NamedTuple):
    write: Callable[[str, Iterable[int]], None]
    read: Callable[[str], set[int]]


def write_postgresql(url: str, numbers: Iterable[int]) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (n int PRIMARY KEY)")
        for n in numbers:
            connection.execute("INSERT INTO notes VALUES (%s)", [n])


def read_postgresql(url: str) -> set[int]:
    import psycopg

    with psycopg.connect(url) as connection:
        return {n for (n,) in connection.execute("SELECT n FROM notes")}


def write_redis(url: str, numbers: Iterable[int]) -> None:
    import redis

    with redis.Redis.from_url(url) as client:
        for n in numbers:
            client.sadd("notes", n)


def read_redis(url: str) -> set[int]:
    import redis

    with redis.Redis.from_url(url) as client:
        return {int(n) for n in client.smembers("notes")}


NOTES = {
    "postgresql": Notes(write_postgresql, read_postgresql),
    "redis": Notes(write_redis, read_redis),
}
