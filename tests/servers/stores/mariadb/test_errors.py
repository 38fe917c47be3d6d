"""What can be wrong with a server, its rights or its settings: each time a sentence, and nothing lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from onefold import Key
from onefold.core.entry import Change, Entry
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.stores import connect
from onefold.stores.mariadb.client import judged
from onefold.stores.mariadb.plan import BEGIN, COMMIT
from tests.launchers.fixtures import launched
from tests.launchers.mariadb import connected
from tests.servers.stores.callers import WAITING
from tests.servers.stores.mariadb.ledgers import Blocking, dialled
from tests.servers.stores.words import at, inserts, refused, token, told

pytestmark = pytest.mark.store("mariadb")

KEY = Key("errors", 1)


# ----- getting in


def test_a_server_that_is_down_is_named_and_no_effect_is_started(opened, mariadb_url):
    store = opened(at(mariadb_url, port="1"))

    sentence = refused(lambda: store.call(KEY), Unreachable)

    assert sentence.startswith("mariadb at 127.0.0.1:1/onefold_")
    assert "cannot be reached: Can't connect" in sentence
    assert "nothing was asked. Is it running, and is this its address?" in sentence


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mariadb://ann:se/cret@db/ledger", "URL cannot be read"),
        ("mariadb://ann:se@cret@db/ledger", "URL cannot be read"),
        ("mariadb://ann:se#cret@db/ledger", "URL cannot be read"),
        ("mariadb://ann:se?cret@db/ledger", "URL cannot be read"),
        ("mariadb://ann:secret@db:port/ledger", "URL cannot be read"),
        ("mariadb://ann:secret@db:70000/ledger", "URL cannot be read"),
        ("mariadb://ann:secret@db", "names no database: write one, as in mariadb://db:3306/onefold"),
        ("mariadb://ann:secret@db/ledger?no_such=1", "an option 'no_such'; known are timeout, socket"),
        ("mysql://ann:secret@db/ledger?timeout=soon", "timeout='soon' is no time to wait"),
        ("mysql://ann:secret@db/ledger?timeout=0", "timeout='0' is no time to wait"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_quoting_it(url, words):
    with pytest.raises(Misconfigured, match=words) as raised:
        connect(url)

    assert "cret" not in told(raised.value).replace(url, "")


def test_a_server_is_found_by_its_socket_and_by_the_other_name(opened, mariadb_url, sql):
    [[socket]] = sql("SELECT @@socket")
    store = opened(f"{mariadb_url.replace('mariadb:', 'mysql:')}?socket={socket}")

    assert store.call(KEY) == "ran"


def test_files_for_tls_that_cannot_be_read_are_named(opened, mariadb_url):
    store = opened(f"{mariadb_url}?ca=no-such-file.pem")

    assert "the files for TLS to mariadb at" in refused(lambda: store.call(KEY), Misconfigured)


def test_where_tls_is_wanted_nobody_logs_in_without_it(opened, mariadb_url):
    store = opened(f"{mariadb_url}?ca=system")

    sentence = refused(lambda: store.call(KEY), Misconfigured)

    assert "SSL is required but the server doesn't support it; turn TLS on in the server" in sentence


@pytest.mark.parametrize("missing", ["pymysql", "aiomysql"])
def test_a_missing_driver_is_named_with_the_extra_that_brings_it(missing):
    lines = [f"import sys, onefold.stores as stores; sys.modules['{missing}'] = None"]
    lines += ["try: stores.connect('mariadb://db/ledger')"]
    lines += ["except Exception as error: print(type(error).__name__, error)"]

    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)

    assert done.stdout.startswith(f"NotInstalled the store mariadb needs {missing}"), done.stderr
    assert 'pip install "onefold[mariadb]"' in done.stdout


# ----- rights and tables


def test_tables_of_somebody_else_are_not_taken_for_a_ledger(opened, mariadb_url, sql):
    sql("CREATE TABLE onefold_entries (id int)")

    sentence = refused(lambda: opened(mariadb_url).call(KEY), Misconfigured)

    assert "not Onefold's own" in sentence
    assert "has no ledger in it" in refused(lambda: opened(mariadb_url, create=False).get([]), Misconfigured)


# ----- waiting


@pytest.mark.parametrize(("given", "seconds"), [(50, 5), (2, 2)])
def test_a_lock_is_waited_for_five_seconds_unless_the_server_says_less(own_server, given, seconds):
    server = launched(own_server, "mariadb")
    with connected(server.url) as cursor:
        cursor.execute("CREATE DATABASE waits")
        cursor.execute(f"SET GLOBAL innodb_lock_wait_timeout = {given}")
    with closing(Blocking(at(server.url, path="/waits"))) as store:
        rows = store.ask("SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@tx_isolation")

    assert rows == [(seconds, 5, "READ-COMMITTED")]


def test_a_statement_that_took_too_long_is_a_definite_no(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    store.call(KEY)
    store.ask("SET SESSION max_statement_time = 2")
    with closing(dialled(mariadb_url)) as other:
        other.query("LOCK TABLES onefold_entries WRITE")
        sentence = refused(lambda: store.swap(inserts([Key("errors", 2)])), Unreachable)
        other.query("UNLOCK TABLES")

    assert "and nothing was written" in sentence
    assert "max_statement_time" in sentence
    assert sql("SELECT COUNT(*) FROM onefold_entries") == [(1,)]
    assert store.call(Key("errors", 2)) == "ran"


def test_a_deadlock_is_a_definite_no_and_the_connection_goes_on(opened, mariadb_url):
    store = opened(mariadb_url)
    first, second = sorted((Key("errors", 1), Key("errors", 2)), key=lambda key: key.id)
    versions = [seen.entry.version for seen in store.swap(inserts([first, second]))]
    changes = [
        Change(key, version, Entry("done", token="bob"))
        for key, version in zip((first, second), versions, strict=True)
    ]
    with closing(dialled(mariadb_url)) as other:
        row = "UPDATE onefold_entries SET source = REPEAT('x', 60000) WHERE id = x'{}'"
        other.query(row.format(second.id.hex()))
        other.query("SET SESSION innodb_lock_wait_timeout = 20")
        with Background(lambda: store.swap(changes)) as swapping:
            swapping.until(lambda: waiting(mariadb_url) == 1)
            other.query(row.format(first.id.hex()))  # the larger transaction survives
        other.rollback()

    assert "nothing was written: Deadlock found" in str(swapping.error)
    assert isinstance(swapping.error, Unreachable)
    assert not isinstance(swapping.error, Unanswered)
    assert [reply.entry.state for reply in store.swap(changes)] == ["done", "done"]


def test_a_batch_takes_its_rows_in_one_order_whatever_it_does_to_them(opened, mariadb_url):
    store = opened(mariadb_url)
    first, second = sorted((Key("errors", 1), Key("errors", 2)), key=lambda key: key.id)
    [seen, _] = store.swap(inserts([first, second]))
    both = [Change(first, seen.entry.version, Entry("done", token="bob")), *inserts([second])]
    with closing(dialled(mariadb_url)) as other:
        row = "UPDATE onefold_entries SET label = 'other' WHERE id = x'{}'"
        other.query(row.format(first.id.hex()))
        with Background(lambda: store.swap(both)) as swapping:
            swapping.until(lambda: waiting(mariadb_url) == 1)
            other.query(row.format(second.id.hex()))  # which the batch does not hold yet
            other.rollback()

    assert swapping.error is None
    assert [reply.entry.state for reply in store.get([first, second])] == ["done", "held"]


def waiting(url: str) -> int:
    """Count the transactions that wait for a row."""
    with connected(url) as cursor:
        cursor.execute(WAITING["mariadb"])
        return int(cursor.fetchone()[0])


class Background:
    """Something that waits, in a thread of its own; its answer, or its error, is kept."""

    def __init__(self, work: Callable[[], object]) -> None:
        import threading

        self.answer: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.answer = self._work()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            assert self._thread.is_alive(), self.error

    def __exit__(self, *raised: object) -> None:
        self._thread.join()


def test_only_a_commit_that_failed_may_have_been_done():
    failed = Unreachable("the server could not do it")

    assert judged(failed, BEGIN) is failed
    assert isinstance(judged(failed, COMMIT), Unanswered)
    assert "may have done so" in str(judged(failed, COMMIT))


# ----- what cannot be stored


def test_a_text_that_is_no_unicode_stops_the_whole_batch(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    first, second = sorted((Key("errors", 1), Key("errors", 2)), key=lambda key: key.id)
    [seen] = store.swap(inserts([second]))
    fine = Change(first, None, Entry("held", token="bob"))
    foul = Change(second, seen.entry.version, Entry("done", token="bob", source="\udcff"))

    assert "lone surrogate" in refused(lambda: store.swap([fine, foul]), Misconfigured)

    assert sql("SELECT token, state FROM onefold_entries") == [("ann", "held")]
    assert token(store.swap(inserts([first]))[0]) == "ann"


def test_a_batch_that_is_larger_than_the_server_takes_leaves_in_parts(opened, mariadb_url):
    store = opened(mariadb_url)
    keys = [Key("large", number) for number in range(80)]

    replies = store.swap(inserts(keys, body='"' * 64_000))

    assert {token(reply) for reply in replies} == {"ann"}
    assert {len(seen.entry.body) for seen in store.get(keys[:50])} == {64_000}
