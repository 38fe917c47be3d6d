"""Servers that are set up against a ledger, or full: each time a sentence, and it goes on later."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from onefold import Key
from onefold.core.errors import Misconfigured, Unreachable
from tests.launchers.fixtures import OwnServer, launched
from tests.launchers.mariadb import connected
from tests.servers.stores.mariadb.ledgers import Blocking, dialled, tuned
from tests.servers.stores.words import at, inserts, refused, token
from tests.waiting import wait_for

pytestmark = pytest.mark.store("mariadb")

KEY = Key("settings", 1)


def test_a_server_with_too_many_connections_says_so_and_serves_later(own_server: OwnServer):
    server = launched(own_server, "mariadb")
    with connected(server.url) as cursor:
        # One seat is kept for whoever may administer, and the user of the tests may.
        cursor.execute("CREATE DATABASE small")
        cursor.execute("CREATE USER ann@'%' IDENTIFIED BY 'only-for-guests'")
        cursor.execute("GRANT ALL ON small.* TO ann@'%'")
        cursor.execute("SET GLOBAL max_connections = 10")
        url = at(server.url, user="ann", password="only-for-guests", path="/small")
        wait_for(lambda: connections(cursor) == 1)  # those that asked whether it is ready are gone
        others = [dialled(url) for _ in range(9)]
        with closing(Blocking(url)) as store:
            sentence = refused(lambda: store.call(KEY), Unreachable)
            for other in others:
                other.close()
            cursor.execute("SET GLOBAL max_connections = 100")

            assert "Too many connections" in sentence
            assert "raise max_connections" in sentence
            assert store.call(KEY) == "ran"


def connections(cursor: Any) -> int:
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    return int(cursor.fetchone()[1])


def test_a_log_of_statements_is_refused_with_the_setting_that_would_do():
    with tuned("--log-bin=log", "--binlog-format=STATEMENT") as server:
        with connected(server.url) as cursor:
            cursor.execute("CREATE DATABASE logged")
        with closing(Blocking(at(server.url, path="/logged"))) as store:
            sentence = refused(lambda: store.call(KEY), Misconfigured)
            with connected(server.url) as cursor:
                cursor.execute("SET GLOBAL binlog_format = MIXED")

            assert "set binlog_format to MIXED or ROW" in sentence
            assert store.call(KEY) == "ran"


def test_a_server_that_was_set_to_read_only_reads_and_says_why_it_cannot_write(own_server: OwnServer):
    server = launched(own_server, "mariadb")
    with connected(server.url) as cursor:
        cursor.execute("CREATE DATABASE small")
        cursor.execute("CREATE USER ann@'%' IDENTIFIED BY 'only-for-guests'")
        cursor.execute("GRANT ALL ON small.* TO ann@'%'")
        with closing(
            Blocking(at(server.url, user="ann", password="only-for-guests", path="/small"))
        ) as store:
            store.call(KEY)
            cursor.execute("SET GLOBAL read_only = ON")
            sentence = refused(lambda: store.call(Key("settings", 2)), Unreachable)
            [seen] = store.get([KEY])
            cursor.execute("SET GLOBAL read_only = OFF")

            assert "it is a replica or set to read-only: name the primary" in sentence
            assert seen.entry is not None
            assert store.call(Key("settings", 2)) == "ran"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of a few megabytes on a folder, with what lies in it; only root may."""
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing_that_was_acknowledged(own_server: OwnServer):
    server = launched(own_server, "mariadb")
    folder = server.folder / "data" / "small"
    folder.mkdir()
    with small_disk(folder), closing(Blocking(at(server.url, path="/small"))) as store:
        kept: list[Key] = []
        sentence = refused(lambda: fill(store, kept), Unreachable)
        found = {token(seen) for seen in store.get(kept)}
        subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)
        after = token(store.swap(inserts([Key("filling", "more")]))[0])
        server.stop()

    assert "is full" in sentence
    assert "make room" in sentence
    assert kept
    assert (found, after) == ({"ann"}, "ann")


def fill(store: Blocking, kept: list[Key]) -> None:
    """Write until the disk is full; add what was acknowledged to `kept`."""
    for number in range(10_000):
        keys = [Key("filling", number, part) for part in range(10)]
        replies = store.swap(inserts(keys, body="x" * 3000))
        assert {token(reply) for reply in replies} == {"ann"}
        kept += keys
