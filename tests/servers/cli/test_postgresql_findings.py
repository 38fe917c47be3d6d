"""What `doctor` makes of a PostgreSQL: what can be lost is said, with what to do, and how bad it is."""

from collections.abc import Callable
from contextlib import closing

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")

import psycopg

from onefold import Key, Ledger
from onefold.cli import findings as common
from onefold.cli import postgresql_findings as findings
from onefold.cli.codes import Code
from onefold.cli.findings import Finding
from tests.fast.cli.judging import assert_bad, by_name, levels
from tests.fast.cli.stage import Cli
from tests.launchers.fixtures import OwnServer, launched
from tests.servers.stores.postgresql.ledgers import option
from tests.servers.stores.words import PASSWORD

SAFE = {
    "server_version": "18.6",
    "server_version_num": "180006",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "server_encoding": "UTF8",
    "recovering": "false",
    "standbys": "0",
}

JUDGES: list[Callable[[findings.Told], Finding]] = [
    findings.version,
    findings.role,
    findings.fsync,
    findings.full_pages,
    findings.commits,
    findings.standbys_of,
    findings.encoding,
]


def test_a_safe_server_is_well_in_every_respect():
    judged = [judge(SAFE) for judge in JUDGES]

    assert [finding.level for finding in judged] == ["ok"] * len(JUDGES)
    assert [finding.lost + finding.do for finding in judged] == [""] * len(JUDGES)


@pytest.mark.parametrize(
    ("judge", "told", "level", "words"),
    [
        (findings.version, {"server_version_num": "130016"}, "note", "tested on 15 and later"),
        (findings.version, {"server_version_num": "110022"}, "down", "claims are refused"),
        (findings.role, {"recovering": "true"}, "down", "target_session_attrs=read-write"),
        (findings.fsync, {"fsync": "off"}, "unsafe", "damage it beyond repair"),
        (
            findings.fsync,
            {"fsync": "off", "source of fsync": "command line"},
            "unsafe",
            "set by: command line",
        ),
        (findings.full_pages, {"full_page_writes": "off"}, "unsafe", "damaged without notice"),
        (findings.commits, {"synchronous_commit": "off"}, "look", "may run again"),
        (findings.standbys_of, {"standbys": "2"}, "look", "2 standbys, written to after the answer"),
        (
            findings.standbys_of,
            {"standbys": "1", "synchronous_standby_names": "*", "synchronous_commit": "local"},
            "look",
            "1 standby, written to after",
        ),
        (findings.encoding, {"server_encoding": "LATIN1"}, "look", "ENCODING 'UTF8'"),
        (findings.encoding, {"server_encoding": "SQL_ASCII"}, "look", "SQL_ASCII"),
    ],
)
def test_what_is_wrong_says_what_can_be_lost_and_what_to_do(judge, told, level, words):
    assert_bad(judge({**SAFE, **told}), level, words)


@pytest.mark.parametrize("setting", ["on", "remote_apply", "remote_write", "local"])
def test_commits_that_wait_for_the_disk_are_safe(setting: str):
    assert findings.commits({**SAFE, "synchronous_commit": setting}).level == "ok"


def test_standbys_that_are_waited_for_lose_nothing():
    told = {**SAFE, "standbys": "2", "synchronous_standby_names": "ANY 1 (*)"}

    assert findings.standbys_of(told).level == "ok"


@pytest.mark.parametrize(("apart", "level"), [(0.0, "ok"), (59.0, "ok"), (61.0, "look"), (-3600.0, "look")])
def test_a_server_whose_clock_is_far_from_ours_is_told(apart: float, level: str):
    assert common.server_clock(1e9 + apart, 1e9).level == level


# ----- on a real server


@pytest.fixture
def url(postgresql_url: str) -> str:
    with closing(Ledger(postgresql_url)) as ledger:
        ledger.call(Key("charges", 1), lambda: None)
    return postgresql_url


@pytest.mark.store("postgresql")
def test_a_healthy_server_passes_and_nothing_is_left_behind(cli: Cli, url: str):
    told = cli.json("doctor", url)

    assert told["code"] == Code.FINE, told
    assert list(by_name(told)) == [
        "round trip",
        "server",
        "encryption",
        "role",
        "fsync",
        "full pages",
        "commits",
        "failover",
        "encoding",
        "schema",
        "clock",
        "parked",
    ]
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT DISTINCT scope FROM onefold_entries").fetchall() == [("charges",)]


@pytest.mark.store("postgresql")
def test_a_session_that_does_not_wait_for_the_disk_is_found(cli: Cli, url: str):
    told = cli.json("doctor", option(url, synchronous_commit="off"))

    assert told["code"] == Code.PERSON
    assert by_name(told)["commits"]["level"] == "look"
    assert "set by: client" in by_name(told)["commits"]["text"]


@pytest.mark.store("postgresql")
def test_secrets_are_not_printed(cli: Cli, url: str):
    fine, wrong = cli("doctor", url), cli("doctor", url.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1"))

    assert PASSWORD not in fine.output + wrong.output + fine.stderr + wrong.stderr


@pytest.mark.store("postgresql")
def test_an_unsafe_server_and_then_a_replica_are_judged(cli: Cli, own_server: OwnServer):
    server = launched(own_server, "postgresql")
    with closing(Ledger(server.url)) as ledger:
        ledger.call(Key("charges", 1), lambda: None)
    with closing(psycopg.connect(server.url, autocommit=True)) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")
    server.restart()
    unsafe = cli.json("doctor", server.url)
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.restart()
    replica = cli.json("doctor", server.url)

    assert unsafe["code"] == Code.UNSAFE
    assert levels(unsafe, "fsync", "full pages") == ["unsafe", "unsafe"]
    assert "set by: configuration file" in by_name(unsafe)["fsync"]["text"]
    assert replica["code"] == Code.UNREACHABLE
    assert levels(replica, "round trip", "role") == ["down", "down"]


@pytest.mark.store("postgresql")
def test_the_schema_is_printed_without_connecting(cli: Cli, postgresql_url: str):
    printed = cli("store", "sql", "postgresql://nobody@nowhere.invalid/none").stdout
    with closing(psycopg.connect(postgresql_url)) as connection:
        connection.execute(printed.encode())
        connection.commit()

    assert by_name(cli.json("doctor", postgresql_url))["schema"]["level"] == "ok"
