"""What `doctor` makes of a MariaDB: what can be lost is said, with what to do, and how bad it is."""

from collections.abc import Callable
from contextlib import closing

import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")

from onefold import Key, Ledger
from onefold.cli import mariadb_findings as findings
from onefold.cli.codes import Code
from onefold.cli.findings import Finding
from tests.fast.cli.judging import assert_bad, by_name, levels
from tests.fast.cli.stage import Cli
from tests.launchers.fixtures import OwnServer, launched
from tests.launchers.mariadb import connected
from tests.servers.stores.mariadb.ledgers import tuned
from tests.servers.stores.words import PASSWORD, at

SAFE = {
    "version": "10.11.19-MariaDB",
    "read_only": "OFF",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "log_bin": "OFF",
    "binlog_format": "MIXED",
    "sync_binlog": "0",
    "rpl_semi_sync_master_enabled": "OFF",
    "wsrep_on": "OFF",
    "max_allowed_packet": "16777216",
    "replicas": "0",
}

JUDGES: list[Callable[[findings.Told], Finding]] = [
    findings.version,
    findings.role,
    findings.commits,
    findings.pages,
    findings.binary_log,
    findings.failover,
    findings.galera,
    findings.packets,
]


def test_a_safe_server_is_well_in_every_respect():
    judged = [*(judge(SAFE) for judge in JUDGES), findings.engine([]), findings.collation([])]

    assert [finding.level for finding in judged] == ["ok"] * len(judged)
    assert [finding.lost + finding.do for finding in judged] == [""] * len(judged)


@pytest.mark.parametrize(
    ("judge", "told", "level", "words"),
    [
        (findings.version, {"version": "10.6.21-MariaDB"}, "note", "tested on 10.11 and later"),
        (findings.version, {"version": "10.5.29-MariaDB-log"}, "down", "claims are refused"),
        (findings.version, {"version": "8.4.3"}, "note", "tested on MariaDB only"),
        (findings.role, {"read_only": "ON"}, "down", "name the primary"),
        (findings.commits, {"innodb_flush_log_at_trx_commit": "2"}, "look", "crash of the machine"),
        (findings.commits, {"innodb_flush_log_at_trx_commit": "0"}, "unsafe", "crash of the server"),
        (findings.pages, {"innodb_doublewrite": "OFF"}, "unsafe", "entries may be damaged"),
        (findings.binary_log, {"log_bin": "ON"}, "look", "sync_binlog = 0"),
        (findings.binary_log, {"log_bin": "ON", "binlog_format": "STATEMENT"}, "down", "MIXED"),
        (findings.failover, {"replicas": "2"}, "look", "2 replicas, written to after the answer"),
        (findings.failover, {"replicas": "1"}, "look", "1 replica, written to after"),
        (findings.galera, {"wsrep_on": "ON"}, "look", "may be won on two nodes"),
        (findings.packets, {"max_allowed_packet": "1048576"}, "look", "batches with large records"),
    ],
)
def test_what_is_wrong_says_what_can_be_lost_and_what_to_do(judge, told, level, words):
    assert_bad(judge({**SAFE, **told}), level, words)


def test_what_is_waited_for_is_safe():
    assert findings.binary_log({**SAFE, "log_bin": "ON", "sync_binlog": "1"}).level == "ok"
    assert findings.failover({**SAFE, "replicas": "2", "rpl_semi_sync_master_enabled": "ON"}).level == "ok"


# ----- on a real server


@pytest.fixture
def url(mariadb_url: str) -> str:
    with closing(Ledger(mariadb_url)) as ledger:
        ledger.call(Key("charges", 1), lambda: None)
    return mariadb_url


@pytest.mark.store("mariadb")
def test_a_healthy_server_passes_and_nothing_is_left_behind(cli: Cli, url: str):
    told = cli.json("doctor", url)

    assert told["code"] == Code.FINE, told
    assert list(by_name(told)) == [
        "round trip",
        "server",
        "encryption",
        "role",
        "commits",
        "full pages",
        "binary log",
        "failover",
        "galera",
        "packets",
        "engine",
        "collation",
        "schema",
        "clock",
        "parked",
    ]
    with connected(url) as cursor:
        cursor.execute("SELECT DISTINCT scope FROM onefold_entries")
        assert list(cursor.fetchall()) == [(b"charges",)]


@pytest.mark.store("mariadb")
def test_secrets_are_not_printed(cli: Cli, url: str):
    fine, wrong = cli("doctor", url.replace("mariadb:", "mysql:")), cli("doctor", at(url, port="1"))

    assert (fine.exit_code, wrong.exit_code) == (Code.FINE, Code.UNREACHABLE)
    assert PASSWORD not in fine.output + wrong.output + fine.stderr + wrong.stderr


@pytest.mark.store("mariadb")
@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ("ALTER TABLE onefold_entries ENGINE = Aria", "engine", "onefold_entries (Aria)"),
        ("ALTER TABLE onefold_meta ENGINE = MyISAM", "engine", "onefold_meta (MyISAM)"),
        (
            "ALTER TABLE onefold_entries MODIFY scope varchar(128) COLLATE utf8mb4_general_ci NOT NULL",
            "collation",
            "scope (varchar(128), utf8mb4_general_ci)",
        ),
        (
            "ALTER TABLE onefold_entries MODIFY body text CHARACTER SET latin1",
            "collation",
            "body (text, latin1_swedish_ci)",
        ),
    ],
)
def test_tables_that_somebody_changed_are_found(cli: Cli, url: str, change: str, name: str, words: str):
    with connected(url) as cursor:
        cursor.execute(change)

    told = cli.json("doctor", url)

    assert told["code"] == Code.UNSAFE
    assert by_name(told)[name]["level"] == "unsafe"
    assert words in by_name(told)[name]["text"]


@pytest.mark.store("mariadb")
def test_settings_that_can_lose_something_are_found(cli: Cli):
    unsafe = "--log-bin=log --sync-binlog=0 --skip-innodb-doublewrite --innodb-flush-log-at-trx-commit=2"
    with tuned(*unsafe.split(), "--max-allowed-packet=1M", "--server-id=1") as server:
        with connected(server.url) as cursor:
            cursor.execute("CREATE DATABASE judged")
        url = at(server.url, path="/judged")
        with closing(Ledger(url)) as ledger:
            ledger.call(Key("charges", 1), lambda: None)
        told = cli.json("doctor", url)

    assert told["code"] == Code.UNSAFE
    assert levels(told, "full pages") == ["unsafe"]
    assert levels(told, "commits", "binary log", "packets") == ["look"] * 3
    assert levels(told, "round trip", "role", "failover") == ["ok"] * 3


@pytest.mark.store("mariadb")
def test_a_server_that_is_read_only_is_found_even_by_who_may_write_to_it(cli: Cli, own_server: OwnServer):
    server = launched(own_server, "mariadb")
    with connected(server.url) as cursor:
        cursor.execute("CREATE DATABASE judged")
        url = at(server.url, path="/judged")
        with closing(Ledger(url)) as ledger:
            ledger.call(Key("charges", 1), lambda: None)
        cursor.execute("SET GLOBAL read_only = ON")

    assert levels(cli.json("doctor", url), "round trip", "role") == ["ok", "down"]


@pytest.mark.store("mariadb")
def test_the_schema_is_printed_without_connecting(cli: Cli, mariadb_url: str):
    printed = cli("store", "sql", "mariadb://nobody@nowhere.invalid/none").stdout
    with connected(mariadb_url) as cursor:
        for statement in printed.split(";\n"):
            if statement.strip():
                cursor.execute(statement)

    assert levels(cli.json("doctor", mariadb_url), "schema", "engine", "collation") == ["ok"] * 3
