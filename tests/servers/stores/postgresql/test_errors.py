"""What can be wrong with a server, its rights or its settings: each time a sentence, and nothing lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from onefold import Key
from onefold.core.entry import Change, Entry
from onefold.core.errors import Misconfigured, Unreachable
from onefold.stores.postgresql import connect
from tests.launchers.fixtures import OwnServer, launched
from tests.launchers.server import Launched
from tests.servers.stores.postgresql.ledgers import Blocking, option
from tests.servers.stores.words import at, inserts, refused, token, told

pytestmark = pytest.mark.store("postgresql")

KEY = Key("errors", 1)


def test_a_server_that_is_down_is_named_and_no_effect_is_started(opened, postgresql_url):
    store = opened(at(postgresql_url, port="1"))

    sentence = refused(lambda: store.call(KEY), Unreachable)

    assert sentence.startswith("postgresql at 127.0.0.1:1/postgres cannot be reached: ")
    assert "Connection refused" in sentence
    assert sentence.endswith("nothing was asked. Is it running, and is this its address?")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:se/cret@db/ledger",
        "postgresql://ann:se@cret@db/ledger",
        "postgresql://ann:se%zzcret@db/ledger",
        "postgresql://ann:secret@db:port/ledger",
        "postgresql://ann:secret@db:70000/ledger",
        "postgresql://ann:secret@db/ledger?no_such_option=1",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_quoting_it(url):
    with pytest.raises(Misconfigured, match="URL cannot be read") as raised:
        connect(url)

    assert "cret" not in told(raised.value).replace(url, "")


def test_a_read_only_session_reads_and_says_why_it_cannot_write(opened, postgresql_url):
    opened(postgresql_url).call(KEY)
    store = opened(option(postgresql_url, default_transaction_read_only="on"))

    sentence = refused(lambda: store.call(Key("errors", 2)), Unreachable)

    assert "read-only transaction" in sentence
    assert "target_session_attrs=read-write" in sentence
    assert store.get([KEY])[0].entry.state == "done"


def test_a_replica_is_told_from_a_primary(own_server: OwnServer):
    server = launched(own_server, "postgresql")
    with closing(Blocking(server.url)) as first:
        first.call(KEY)
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.restart()
    with closing(Blocking(server.url)) as store:
        sentence = refused(lambda: store.call(Key("errors", 2)), Unreachable)
        [seen] = store.get([KEY])

    assert "it is a replica" in sentence
    assert seen.entry is not None
    assert seen.entry.state == "done"


def test_tables_of_somebody_else_are_not_taken_for_a_ledger(opened, postgresql_url, sql):
    sql("CREATE TABLE onefold_entries (id int)")

    assert 'relation "onefold_entries" already exists' in refused(
        lambda: opened(postgresql_url).call(KEY), Misconfigured
    )
    assert sql("SELECT to_regclass('onefold_meta')") == [(None,)]


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_binary and the library"])
def test_a_missing_driver_is_named_with_the_extra_that_brings_it(missing):
    lines = ["import sys, onefold.stores as stores"]
    if missing == "psycopg":
        lines += ["sys.modules['psycopg'] = None"]
    else:
        lines += ["sys.modules['psycopg_binary'] = sys.modules['psycopg_c'] = None"]
        lines += ["import ctypes.util; ctypes.util.find_library = lambda name: None"]
    lines += ["try: stores.connect('postgresql://db/ledger')"]
    lines += ["except Exception as error: print(type(error).__name__, error)"]

    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)

    assert done.stdout.startswith("NotInstalled the store postgresql "), done.stderr
    assert 'pip install "onefold[postgresql]"' in done.stdout
    assert ("needs psycopg, which is not installed" in done.stdout) == (missing == "psycopg")


# ----- waiting


@pytest.mark.parametrize(
    ("given", "timeout"), [({}, "5s"), ({"lock_timeout": "70ms"}, "70ms"), ({"lock_timeout": "9s"}, "9s")]
)
def test_a_lock_timeout_that_is_set_is_kept(postgresql_url, given, timeout):
    with closing(connect(option(postgresql_url, **given))) as store:
        store.get([])
        [[row]] = store.client.execute_many([("SHOW lock_timeout", ())])

    assert row == (timeout,)


def test_a_statement_timeout_is_a_definite_no(opened, postgresql_url, sql):
    opened(postgresql_url).call(KEY)
    store = opened(option(postgresql_url, statement_timeout="2s"))
    with closing(psycopg.connect(postgresql_url)) as other:
        other.execute("LOCK TABLE onefold_entries IN ACCESS EXCLUSIVE MODE")
        sentence = refused(lambda: store.swap(inserts([Key("errors", 2)])), Unreachable)
        other.rollback()

    assert "nothing was written: canceling statement due to statement timeout" in sentence
    assert sql("SELECT count(*) FROM onefold_entries") == [(1,)]
    assert store.call(Key("errors", 2)) == "ran"


# ----- what cannot be stored


@pytest.mark.parametrize("text", ["a\0b", "\udcff"])
def test_a_text_that_the_server_cannot_hold_stops_the_whole_batch(opened, postgresql_url, sql, text):
    store = opened(postgresql_url)
    first, second = sorted((Key("errors", 1), Key("errors", 2)), key=lambda key: key.id)
    [seen] = store.swap(inserts([second]))
    fine = Change(first, None, Entry("held", token="bob"))
    foul = Change(second, seen.entry.version, Entry("done", token="bob", source=text))

    refused(lambda: store.swap([fine, foul]), Misconfigured)

    assert sql("SELECT token, state FROM onefold_entries") == [("ann", "held")]
    assert token(store.swap(inserts([first]))[0]) == "ann"


@pytest.fixture
def latin(postgresql_url: str, sql) -> Iterator[str]:
    """The URL of a database that cannot hold every letter."""
    name = f"onefold_latin_{token_hex(4)}"
    sql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")
    yield at(postgresql_url, path=f"/{name}").partition("?")[0]
    sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_whose_encoding_is_too_small_says_so(opened, latin):
    store = opened(latin)
    assert store.call(KEY, "café") == "ran"

    sentence = refused(lambda: store.call(Key("errors", "日本")), Misconfigured)

    assert "use a database in UTF8" in sentence


@contextmanager
def small_disk(server: Launched) -> Iterator[Path]:
    """Mount a disk of one megabyte that belongs to a server; only root may."""
    disk = server.folder / "disk"
    disk.mkdir()
    owner = (server.folder / "data").stat().st_uid
    command = ["mount", "-t", "tmpfs", "-o", f"size=1m,mode=700,uid={owner}", "none", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_loses_nothing_that_was_acknowledged(own_server: OwnServer):
    server = launched(own_server, "postgresql")
    with small_disk(server) as disk, closing(psycopg.connect(server.url, autocommit=True)) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        store = Blocking(f"{server.url}?options=-cdefault_tablespace%3Dsmall")
        kept: list[Key] = []
        sentence = refused(lambda: fill(store, kept), Unreachable)
        found = {token(seen) for seen in store.get(kept)}
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        after = token(store.swap(inserts([Key("filling", "more")]))[0])
        store.close()

    assert "its disk is full: make room" in sentence
    assert kept
    assert (found, after) == ({"ann"}, "ann")


def fill(store: Blocking, kept: list[Key]) -> None:
    """Write until the disk is full; add what was acknowledged to `kept`."""
    for number in range(10_000):
        keys = [Key("filling", number, part) for part in range(10)]
        replies = store.swap(inserts(keys, body="x" * 1000))
        assert {token(reply) for reply in replies} == {"ann"}
        kept += keys
