"""What `doctor` asks of a Cassandra, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what the server said. It changes nothing in the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from onefold.cli.findings import Finding, encryption, worker_clock
from onefold.core.errors import OnefoldError
from onefold.core.story import span
from onefold.runtime import current
from onefold.stores.cassandra.address import PROTOCOL, Address
from onefold.stores.cassandra.rows import LINGER, Row

Told = Mapping[str, str]
"""Settings of a server, as it lists them; one before 4.0 lists none."""

TESTED = (5, 0)
MENDED = ((3, 0, 24), (3, 11, 10), (4, 0, 0))
"""The first versions in which a read cannot go back behind a lightweight transaction (CASSANDRA-12126)."""

SETTINGS = ("commitlog_sync", "tombstone_failure_threshold")
THRESHOLD = 100_000
"""Tombstones at which a read fails, unless the server says otherwise."""

EPOCH = 0x01B21DD213814000
"""1970 in the count of a time-based UUID, which begins in 1582 and has ten million to the second."""


def look(client: Any) -> Iterator[Finding]:
    """Ask a server, through the store's own session, and judge it."""
    where: Address = client.address
    before = current().time()
    [local] = _asked(client, "SELECT release_version, now() AS now FROM system.local")
    after = current().time()
    settings = {row["name"]: row["value"] or "" for name in SETTINGS for row in _setting(client, name)}
    keyspace = _keyspace(client, where.keyspace)
    copies = fewest(keyspace)
    yield server(local["release_version"])
    yield transport(where)
    yield protocol(where.protocol)
    yield replication(keyspace)
    yield commit_log(settings, keyspace, copies)
    yield expiry(_lasts(client, where))
    yield tombstones(_read(client, where), int(settings.get("tombstone_failure_threshold") or THRESHOLD))
    yield worker_clock(ahead(before, after, moment_of(local["now"])), after, where.max_skew, "the server's")


def moment_of(now: UUID) -> float:
    """Read the time of a time-based UUID."""
    return (now.time - EPOCH) / 1e7


def ahead(before: float, after: float, told: float) -> float:
    """Say how far this clock is ahead of another that was read in between, and tells milliseconds."""
    return before - told - 0.001 if before - 0.001 > told else min(after + 0.001 - told, 0.0)


# ----- asking


def _asked(client: Any, text: str) -> list[Row]:
    rows: list[Row] | OnefoldError = client.query(text)
    if isinstance(rows, OnefoldError):
        raise rows
    return rows


def _if_known(client: Any, text: str) -> list[Row]:
    """Ask for what not every version tells, or not everybody."""
    rows: list[Row] | OnefoldError = client.query(text)
    return [] if isinstance(rows, OnefoldError) else rows


def _setting(client: Any, name: str) -> list[Row]:
    return _if_known(client, f"SELECT name, value FROM system_views.settings WHERE name = '{name}'")


def _keyspace(client: Any, name: str) -> Row:
    told = _if_known(client, f"SELECT * FROM system_schema.keyspaces WHERE keyspace_name = '{name}'")
    if not told:
        return {}
    return {**told[0], "replication": dict(told[0]["replication"])}


def _lasts(client: Any, where: Address) -> int:
    """Return after how many seconds the server forgets hints, 0 for never."""
    named = f"keyspace_name = '{where.keyspace}' AND table_name = '{where.prefix}_open'"
    told = _if_known(client, f"SELECT default_time_to_live FROM system_schema.tables WHERE {named}")
    return told[0]["default_time_to_live"] or 0 if told else 0


def _read(client: Any, where: Address) -> list[Row]:
    named = f"keyspace_name = '{where.keyspace}' AND table_name = '{where.prefix}_open'"
    return _if_known(client, f"SELECT p99th, max FROM system_views.tombstones_per_read WHERE {named}")


# ----- judging


def server(version: str) -> Finding:
    """Judge the server's version."""
    text, numbers = f"Cassandra {version}", tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers[:2] >= TESTED:
        return Finding("server", "ok", text)
    if numbers >= MENDED[-1] or any(numbers[:2] == first[:2] and numbers >= first for first in MENDED):
        lost = "nothing that is known; Onefold was tested on 5.0 and, in part, on 2.1"
        return Finding("server", "note", text, lost, "upgrade to 5.0 or later")
    return Finding(
        "server",
        "look",
        f"{text}, in which a read can go back behind what was agreed (CASSANDRA-12126)",
        "where there are several nodes, a claim can be shown as it was before: its effect may run twice",
        "upgrade to 3.11.10, 4.0 or later",
    )


def transport(address: Address) -> Finding:
    """Judge how the connection is protected: Onefold has no TLS for Cassandra yet."""
    do = "send it through a tunnel, like WireGuard or stunnel: Onefold has no TLS for Cassandra yet"
    return encryption([host for host, _ in address.hosts], "plain", do)


def protocol(number: int) -> Finding:
    """Judge how the server is spoken to."""
    if number >= PROTOCOL:
        return Finding("protocol", "ok", f"version {number}")
    lost = "nothing; a server that needs this is no longer mended by anybody"
    return Finding(
        "protocol", "note", f"version {number}, for servers before 2.2", lost, "upgrade the server"
    )


def fewest(keyspace: Row) -> int:
    """Return how many copies there are where there are fewest; 0 if nobody tells."""
    factors = [
        int(value.partition("/")[0])
        for name, value in keyspace.get("replication", {}).items()
        if name != "class" and re.match(r"\d", value)
    ]
    return min(factors, default=0)


def replication(keyspace: Row) -> Finding:
    """Judge how many copies there are, and where."""
    copies = fewest(keyspace)
    if not copies:
        return Finding("copies", "note", "not known: this server does not tell", "", "DESCRIBE KEYSPACE")
    strategy = keyspace["replication"]["class"].rpartition(".")[2]
    name = keyspace["keyspace_name"]
    do = (
        f"ALTER KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', "
        "'YOUR DATA CENTRE': 3}; then nodetool repair --full"
    )
    if copies < 3:
        lost = (
            "everything, with one disk; and while its node is down no claim can be made"
            if copies == 1
            else "nothing, but both must be there for a claim: one node down stops all work on its keys"
        )
        return Finding("copies", "look", f"{copies} ({strategy})", lost, do)
    if strategy == "SimpleStrategy":
        lost = (
            "nothing, but copies are placed without regard to racks and data centres: several may go at once"
        )
        return Finding("copies", "look", f"{copies} ({strategy})", lost, do)
    return Finding("copies", "ok", f"{copies} in each data centre, a majority of which must be there")


def commit_log(settings: Told, keyspace: Row, copies: int) -> Finding:
    """Judge when a write counts as written."""
    if not keyspace.get("durable_writes", True):
        return Finding(
            "commit log",
            "unsafe",
            "not written for this keyspace (durable_writes = false)",
            "a crash forgets what was done since the last flush: effects run twice",
            f"ALTER KEYSPACE {keyspace['keyspace_name']} WITH durable_writes = true",
        )
    mode = settings.get("commitlog_sync", "")
    if mode in ("batch", "group"):
        return Finding("commit log", "ok", f"{mode}: what is answered is on the disk")
    do = "commitlog_sync: batch (or group) in cassandra.yaml of every node, and restart them"
    if not mode:
        text = "not known: this server does not tell, or not this user"
        return Finding("commit log", "note", text, "with `periodic`, what a crash forgets", do)
    text = f"{mode}: an answer comes before the disk has it"
    if copies >= 3:
        lost = "nothing, unless a majority of the copies crash within the same seconds"
        return Finding("commit log", "note", text, lost, do)
    lost = "a crash of a node forgets the claims and receipts of the last seconds: effects run twice"
    return Finding("commit log", "unsafe", text, lost, do)


def expiry(lasts: int) -> Finding:
    """Judge what the server forgets by itself. Entries say so themselves, whatever their table says."""
    if not lasts:
        return Finding("expiry", "ok", f"what is done leaves {span(LINGER)} or more after it is forgotten")
    return Finding(
        "expiry",
        "unsafe",
        f"hints to open entries are forgotten after {span(lasts)} (default_time_to_live)",
        "open entries leave all lists: what waits for its next attempt is never tried again",
        "ALTER TABLE … WITH default_time_to_live = 0, for the table whose name ends in _open",
    )


def tombstones(read: list[Row], threshold: int) -> Finding:
    """Judge how many traces of ended work lists read through."""
    most = max((float(row["max"] or 0) for row in read), default=0.0)
    text = f"up to {most:,.0f} read for a list; at {threshold:,} lists fail"
    if most < threshold / 10:
        return Finding("tombstones", "ok", text)
    lost = "nothing, but lists become slow and then fail; claims do not read them"
    return Finding("tombstones", "look", text, lost, "nodetool compact KEYSPACE; list and work more evenly")
