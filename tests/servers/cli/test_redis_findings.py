"""What `doctor` makes of a Redis: what can be lost is said, with what to do, and how bad it is."""

from contextlib import closing

import pytest

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.cli import redis_findings as findings
from onefold.cli.findings import server_clock
from onefold.core.key import Key
from onefold.stores.redis import connect
from tests.launchers.fixtures import launched
from tests.servers.stores.redis.ledgers import Server

SAFE = {
    "redis_version": "7.2.4",
    "valkey_version": "9.1.2",
    "maxmemory_policy": "noeviction",
    "maxmemory": str(100 * 2**20),
    "used_memory": str(10 * 2**20),
    "evicted_keys": "0",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "connected_slaves": "0",
}


def test_a_safe_server_is_well_in_every_respect():
    judged = [
        judge(SAFE)
        for judge in (
            findings.version,
            findings.eviction,
            findings.memory,
            findings.persistence,
            findings.replicas,
        )
    ]

    assert [finding.level for finding in judged] == ["ok"] * 5
    assert [finding.lost for finding in judged] == [""] * 5
    assert judged[0].text == "Valkey 9.1.2"


@pytest.mark.parametrize(
    ("judge", "told", "level", "words"),
    [
        (findings.eviction, {"maxmemory_policy": "allkeys-lru"}, "unsafe", "throws keys away"),
        (findings.eviction, {"maxmemory_policy": "volatile-ttl"}, "unsafe", "throws keys away"),
        (
            findings.eviction,
            {"maxmemory_policy": "allkeys-lru", "maxmemory": "0"},
            "look",
            "as soon as somebody",
        ),
        (
            findings.eviction,
            {"maxmemory_policy": "allkeys-lru", "maxmemory": "0", "evicted_keys": "7"},
            "unsafe",
            "7 since",
        ),
        (findings.eviction, {"evicted_keys": "1200"}, "look", "1,200 keys were thrown away"),
        (findings.memory, {"maxmemory": "0"}, "note", "no limit"),
        (findings.memory, {"used_memory": str(95 * 2**20)}, "look", "95 MB used of 100 MB"),
        (findings.persistence, {"aof_enabled": "0"}, "unsafe", "no append-only file"),
        (findings.persistence, {"aof_last_write_status": "err"}, "look", "cannot be written"),
        (findings.persistence, {"no-appendfsync-on-rewrite": "yes"}, "look", "while it is rewritten"),
        (findings.persistence, {"appendfsync": "everysec"}, "look", "synced every second"),
        (findings.persistence, {"appendfsync": "no"}, "unsafe", "whenever the system likes"),
        (
            findings.persistence,
            {"appendfsync": "no", "no-appendfsync-on-rewrite": "yes"},
            "unsafe",
            "system likes",
        ),
        (
            findings.replicas,
            {"connected_slaves": "2"},
            "note",
            "2 replicas, written to after the answer: best effort across failover",
        ),
    ],
)
def test_what_can_be_lost_is_said_with_what_to_do(judge, told, level, words):
    finding = judge(SAFE | told)

    assert finding.level == level
    assert words in finding.text
    assert finding.lost
    assert finding.do


def test_a_server_whose_settings_nobody_may_read_is_judged_by_what_it_shows():
    told = {name: value for name, value in SAFE.items() if name not in findings.SETTINGS}

    assert findings.persistence(told).level == "note"
    assert findings.persistence(told | {"aof_enabled": "0"}).level == "unsafe"


@pytest.mark.parametrize(
    ("apart", "level", "words"),
    [
        (0.2, "ok", "0.2 s from"),
        (-59, "ok", ""),
        (7200, "look", "2 h ahead of"),
        (-7200, "look", "2 h behind"),
    ],
)
def test_clocks_that_differ_are_told(apart, level, words):
    finding = server_clock(1_700_000_000 + apart, 1_700_000_000)

    assert finding.level == level
    assert words in finding.text


# ----- a real server


@pytest.mark.store("redis")
def test_a_real_server_is_asked_and_found_safe(redis_url):
    with closing(connect(redis_url)) as store:
        store.get([Key("orders", 1)])
        found = {finding.name: finding.level for finding in findings.look(store.client)}

    assert found == {
        "server": "ok",
        "encryption": "ok",
        "eviction": "ok",
        "memory": "note",
        "persistence": "ok",
        "failover": "ok",
        "clock": "ok",
    }


@pytest.mark.store("redis")
def test_a_real_server_that_evicts_and_keeps_nothing_is_found_unsafe(own_server):
    server = launched(own_server, "redis")
    with Server(server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", 100 * 2**20)
        client.config_set("appendonly", "no")
    with closing(connect(server.url)) as store:
        found = {finding.name: finding.level for finding in findings.look(store.client)}

    assert (found["eviction"], found["persistence"]) == ("unsafe", "unsafe")


@pytest.mark.store("redis")
def test_a_user_who_may_not_read_settings_still_hears_the_rest(own_server):
    server = launched(own_server, "redis")
    with Server(server.url) as client:
        client.acl_setuser(
            "bob", enabled=True, nopass=True, categories=["+@all"], commands=["-config"], keys=["*"]
        )
    host = server.url.rpartition("@")[2]
    with closing(connect(f"redis://bob:x@{host}")) as store:
        found = {finding.name: finding.level for finding in findings.look(store.client)}

    assert found["persistence"] == "note"
    assert found["eviction"] == "ok"
