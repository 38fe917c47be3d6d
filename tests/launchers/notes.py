"""Writes numbers to each kind of server and reads them back, by the bare client, to test the launchers.

A write returns when the server acknowledged it, as its URL and its settings ask. Nothing of Onefold is used,
so that a wrong store and a wrong launcher cannot excuse each other.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.launchers.cassandra import session
from tests.launchers.dynamodb import client, tables
from tests.launchers.mariadb import connected


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


def write_dynamodb(url: str, numbers: Iterable[int]) -> None:
    table, made = table_of(url), client(url)
    if table not in tables(made):
        key = [{"AttributeName": "n", "KeyType": "HASH"}]
        kinds = [{"AttributeName": "n", "AttributeType": "N"}]
        made.create_table(
            TableName=table, KeySchema=key, AttributeDefinitions=kinds, BillingMode="PAY_PER_REQUEST"
        )
    for n in numbers:
        made.put_item(TableName=table, Item={"n": {"N": str(n)}})


def read_dynamodb(url: str) -> set[int]:
    items = client(url).scan(TableName=table_of(url), ConsistentRead=True)["Items"]
    return {int(item["n"]["N"]) for item in items}


def table_of(url: str) -> str:
    return urlsplit(url).path.strip("/")


def write_mongodb(url: str, numbers: Iterable[int]) -> None:
    import pymongo

    with pymongo.MongoClient[dict[str, int]](url) as opened:
        for n in numbers:
            opened.get_default_database()["notes"].insert_one({"_id": n})


def read_mongodb(url: str) -> set[int]:
    import pymongo

    with pymongo.MongoClient[dict[str, int]](url) as opened:
        return {each["_id"] for each in opened.get_default_database()["notes"].find()}


def write_mariadb(url: str, numbers: Iterable[int]) -> None:
    with connected(url) as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS notes (n int PRIMARY KEY) ENGINE=InnoDB")
        for n in numbers:
            cursor.execute("INSERT INTO notes VALUES (%s)", [n])


def read_mariadb(url: str) -> set[int]:
    with connected(url) as cursor:
        cursor.execute("SELECT n FROM notes")
        return {n for (n,) in cursor.fetchall()}


def write_cassandra(url: str, numbers: Iterable[int]) -> None:
    with session(url) as opened:
        opened.execute("CREATE TABLE IF NOT EXISTS notes (n int PRIMARY KEY)")
        for n in numbers:
            opened.execute("INSERT INTO notes (n) VALUES (%s) IF NOT EXISTS", [n])


def read_cassandra(url: str) -> set[int]:
    with session(url) as opened:
        return {row.n for row in opened.execute("SELECT n FROM notes")}


NOTES = {
    "postgresql": Notes(write_postgresql, read_postgresql),
    "redis": Notes(write_redis, read_redis),
    "dynamodb": Notes(write_dynamodb, read_dynamodb),
    "mongodb": Notes(write_mongodb, read_mongodb),
    "mariadb": Notes(write_mariadb, read_mariadb),
    "cassandra": Notes(write_cassandra, read_cassandra),
}
