"""What `doctor` asks of a PostgreSQL, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what the server said. It changes nothing in the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onefold.cli import findings
from onefold.cli.findings import Finding
from onefold.core.transport import Protection
from onefold.drive import run
from onefold.runtime import current
from onefold.stores.postgresql.plan import Statement
from onefold.stores.postgresql.schema import schema_version
from onefold.stores.shells import Clients
from onefold.stores.sql import migrations

Told = Mapping[str, str]
"""What a server says of itself: settings by name, and a few facts beside them."""

TESTED = 15
"""The oldest major version that Onefold was tested on."""

OLDEST = 12
"""The oldest major version that has what the statements need."""

_SETTINGS = Statement(
    "SELECT name, setting, source FROM pg_settings WHERE name IN ('server_version', 'server_version_num', "
    "'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'server_encoding')"
)
_FACTS = Statement(
    "SELECT pg_is_in_recovery()::text, (SELECT count(*) FROM pg_stat_replication)::text, "
    "extract(epoch FROM clock_timestamp())::float8"
)


def look(client: Any) -> Iterator[Finding]:
    """Ask a server, through the store's own connection, and judge it."""
    before = current().time()
    [[(recovering, standbys, now)]] = client.execute_many([_FACTS])
    after = current().time()
    [rows] = client.execute_many([_SETTINGS])
    told = {name: setting for name, setting, _ in rows}
    told |= {f"source of {name}": source for name, _, source in rows}
    told |= {"recovering": recovering, "standbys": standbys}
    yield version(told)
    if where := client.protection():
        yield transport(*where)
    yield role(told)
    yield fsync(told)
    yield full_pages(told)
    yield commits(told)
    yield standbys_of(told)
    yield encoding(told)
    yield findings.schema(run(schema_version(), Clients(client)), len(migrations("postgresql")))
    yield findings.server_clock(now, (before + after) / 2)


def version(told: Told) -> Finding:
    """Judge the server's version."""
    text, major = f"PostgreSQL {told['server_version']}", int(told["server_version_num"]) // 10000
    if major >= TESTED:
        return Finding("server", "ok", text)
    if major >= OLDEST:
        lost = f"nothing that is known; Onefold was tested on {TESTED} and later"
        return Finding("server", "note", text, lost, f"upgrade to {TESTED} or later")
    lost = "nothing, but claims are refused: the server lacks what the statements need"
    return Finding("server", "down", text, lost, f"upgrade to {TESTED} or later")


def transport(host: str, protection: Protection) -> Finding:
    """Judge how the connection is protected, as the connection itself says."""
    do = "turn TLS on in the server and add sslmode=verify-full and sslrootcert=FILE (or system) to the URL"
    return findings.encryption([host], protection, do)


def role(told: Told) -> Finding:
    """Judge whether this is the server that takes writes."""
    if told["recovering"] == "false":
        return Finding("role", "ok", "a primary: what it answers is what stands")
    return Finding(
        "role",
        "down",
        "a replica: it cannot be written, and what it shows may be old",
        "nothing, but no claim can be made here",
        "name the primary in the store's URL, or all hosts and target_session_attrs=read-write",
    )


def fsync(told: Told) -> Finding:
    """Judge whether the server waits for its disk at all."""
    if told["fsync"] == "on":
        return Finding("fsync", "ok", "on: a crash of the machine does not damage the database")
    return Finding(
        "fsync",
        "unsafe",
        f"off{_source(told, 'fsync')}: the server never waits for its disk",
        "the whole database: a power cut or a crash of the machine can damage it beyond repair",
        "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();",
    )


def full_pages(told: Told) -> Finding:
    """Judge whether half-written pages can be mended."""
    if told["full_page_writes"] == "on":
        return Finding("full pages", "ok", "on: a page that was half written is mended")
    return Finding(
        "full pages",
        "unsafe",
        f"off{_source(told, 'full_page_writes')}: a page that is half written at a crash stays so",
        "entries may be damaged without notice, unless the file system writes whole pages or nothing",
        "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();",
    )


def commits(told: Told) -> Finding:
    """Judge when a commit counts as made."""
    setting = told["synchronous_commit"]
    if setting != "off":
        return Finding("commits", "ok", f"synchronous ({setting}): what is answered is on the disk")
    return Finding(
        "commits",
        "look",
        f"asynchronous{_source(told, 'synchronous_commit')}: an answer comes before the disk has it",
        "a crash of the server can undo the last half second: effects of that time may run again",
        "turn synchronous_commit on where it was turned off: in the URL's options, or by ALTER ROLE, "
        "ALTER DATABASE or ALTER SYSTEM",
    )


def standbys_of(told: Told) -> Finding:
    """Judge what a failover may lose."""
    number, names = int(told["standbys"]), told["synchronous_standby_names"]
    waits = names and told["synchronous_commit"] in ("on", "remote_apply", "remote_write")
    if waits:
        return Finding("failover", "ok", f"commits wait for standbys ({names})")
    if not number:
        return Finding("failover", "ok", "no standby is connected: this server, or nobody, answers")
    return Finding(
        "failover",
        "look",
        f"{number} standby{'s' * (number > 1)}, written to after the answer",
        "a standby that takes over may not know the last claims and receipts: their effects run again",
        "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)', and synchronous_commit = on",
    )


def encoding(told: Told) -> Finding:
    """Judge which letters can be stored."""
    if told["server_encoding"] == "UTF8":
        return Finding("encoding", "ok", "UTF8")
    return Finding(
        "encoding",
        "look",
        f"{told['server_encoding']}, which does not have every letter",
        "nothing, but keys, receipts and sources with other letters are refused",
        "make a database with ENCODING 'UTF8', and name it in the store's URL",
    )


def _source(told: Told, name: str) -> str:
    source = told.get(f"source of {name}", "default")
    return f" (set by: {source})" if source != "default" else ""
