"""What `doctor` asks of a Redis, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what the server said. It changes nothing in the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onefold.cli.findings import Finding, encryption, server_clock
from onefold.core.errors import Misconfigured
from onefold.runtime import current
from onefold.stores.redis.address import Address
from onefold.stores.redis.plan import Command

Told = Mapping[str, str]
"""What a server says of itself: INFO, and the settings it lets be read."""

SETTINGS = ("appendfsync", "no-appendfsync-on-rewrite")
NEARLY_FULL = 0.9


def look(client: Any) -> Iterator[Finding]:
    """Ask a server, through the store's own connection, and judge it."""
    before = current().time()
    [moment_told] = client.execute_many([Command(("TIME",))])
    after = current().time()
    seconds, micros = map(int, moment_told)
    told = _info(client.execute_many([Command(("INFO", "all"))])[0]) | _settings(client)
    yield version(told)
    yield transport(client.address)
    yield eviction(told)
    yield memory(told)
    yield persistence(told)
    yield replicas(told)
    yield server_clock(seconds + micros / 1e6, (before + after) / 2)


def _info(reply: bytes) -> dict[str, str]:
    lines = [line.partition(":") for line in reply.decode("utf-8", "replace").splitlines()]
    return {name: value for name, colon, value in lines if colon}


def _settings(client: Any) -> dict[str, str]:
    """Read settings that INFO does not show; some providers let nobody."""
    try:
        replies = client.execute_many([Command(("CONFIG", "GET", name)) for name in SETTINGS])
    except Misconfigured:
        return {}
    flat = [part.decode() for reply in replies for part in reply]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def version(told: Told) -> Finding:
    """Name the server."""
    if "valkey_version" in told:
        return Finding("server", "ok", f"Valkey {told['valkey_version']}")
    return Finding("server", "ok", f"Redis {told.get('redis_version', 'of an unknown version')}")


def transport(address: Address) -> Finding:
    """Judge how the connection is protected; with TLS it is always verified."""
    do = "turn TLS on in the server and write rediss:// (and ?ca=FILE for an authority of your own)"
    return encryption([address.settings["host"]], "verified" if address.secure else "plain", do)


def eviction(told: Told) -> Finding:
    """Judge what the server does when its memory is full."""
    policy, limit = told.get("maxmemory_policy", "unknown"), int(told.get("maxmemory", 0))
    evicted = int(told.get("evicted_keys", 0))
    lost = "claims and receipts vanish while memory is short: effects run twice, or two workers at once"
    do = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"
    if policy != "noeviction" and (limit or evicted):
        text = f"policy {policy}: a full server throws keys away, {evicted:,} since it started"
        return Finding("eviction", "unsafe", text, lost, do)
    if policy != "noeviction":
        text = f"policy {policy}; it throws keys away as soon as somebody sets maxmemory"
        return Finding("eviction", "look", text, lost, do)
    if evicted:
        text = f"none now, but {evicted:,} keys were thrown away since the server started"
        return Finding("eviction", "look", text, lost, "find out which, then CONFIG RESETSTAT")
    return Finding("eviction", "ok", "none: a full server refuses new claims instead")


def memory(told: Told) -> Finding:
    """Judge the room that is left."""
    used, limit = int(told.get("used_memory", 0)), int(told.get("maxmemory", 0))
    shown = f"{used / 2**20:,.0f} MB used"
    if not limit:
        lost = "nothing, but a server without a limit may be killed by its system, or slow the machine down"
        return Finding(
            "memory", "note", f"{shown}, no limit", lost, "set maxmemory below the machine's memory"
        )
    text = f"{shown} of {limit / 2**20:,.0f} MB"
    if used < limit * NEARLY_FULL:
        return Finding("memory", "ok", text)
    lost = "nothing yet; when it is full new claims are refused, and work stops"
    return Finding("memory", "look", text, lost, "raise maxmemory, set keep, or onefold store purge")


def persistence(told: Told) -> Finding:
    """Judge what an acknowledged claim survives."""
    if told.get("aof_enabled") != "1":
        return Finding(
            "persistence",
            "unsafe",
            "no append-only file: at best a snapshot now and then",
            "a restart forgets everything since the last snapshot: effects of that time run again",
            "CONFIG SET appendonly yes, appendonly yes in its configuration file, and appendfsync always",
        )
    if told.get("aof_last_write_status", "ok") != "ok":
        lost = "nothing, but no claim can be made until the server can write"
        return Finding(
            "persistence", "look", "the append-only file cannot be written", lost, "look at its disk"
        )
    if told.get("no-appendfsync-on-rewrite") == "yes" and told.get("appendfsync") != "no":
        lost = "a power cut during a rewrite of the file can undo the last half minute"
        do = "CONFIG SET no-appendfsync-on-rewrite no"
        return Finding("persistence", "look", "append-only file, not synced while it is rewritten", lost, do)
    return _synced(told.get("appendfsync"))


def _synced(setting: str | None) -> Finding:
    do = "CONFIG SET appendfsync always, and the same in its configuration file"
    match setting:
        case "always":
            return Finding("persistence", "ok", "append-only file, synced before every answer")
        case "everysec":
            # While a sync is running, Redis postpones its writes by up to two seconds, but not its replies.
            text = "append-only file, synced every second"
            lost = (
                "a power cut, or a kill while the disk is slow, can undo the last two seconds: "
                "effects of that time run again, receipts are gone"
            )
            return Finding("persistence", "look", text, lost, do)
        case "no":
            text = "append-only file, synced whenever the system likes: a killed server loses nothing"
            lost = "a power cut can undo the last half minute: effects of that time run again"
            return Finding("persistence", "unsafe", text, lost, do)
        case _:
            text = "append-only file; the server does not let this user see when it is synced"
            lost = "unless it is synced always, a power cut can undo the last moments"
            return Finding("persistence", "note", text, lost, "see that appendfsync is always")


def replicas(told: Told) -> Finding:
    """Say what a failover means. No setting changes it, so it is a note."""
    number = int(told.get("connected_slaves", 0))
    if not number:
        return Finding("failover", "ok", "no replicas: this server, or nobody, answers")
    return Finding(
        "failover",
        "note",
        f"{number} replica{'s' * (number > 1)}, written to after the answer: best effort across failover",
        "a replica that takes over may not know the last claims and receipts: their effects run again",
        "where that must not be, use a store that commits to several machines, like PostgreSQL",
    )
