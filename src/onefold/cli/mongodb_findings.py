"""What `doctor` asks of a MongoDB, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what the server said. It changes nothing in the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onefold.cli import findings
from onefold.cli.findings import Finding
from onefold.core.errors import Misconfigured, Unreachable
from onefold.drive import run
from onefold.runtime import current
from onefold.stores.mongodb.address import Address
from onefold.stores.mongodb.documents import ENTRIES, NOW, OPEN_INDEX
from onefold.stores.mongodb.schema import INDEXES, META, VERSION, schema_version
from onefold.stores.shells import Clients

Told = Mapping[str, Any]
"""What a server says of itself, or a client of how it writes."""

_MAKE = "run what `onefold store sql mongodb:` prints"


def look(client: Any) -> Iterator[Finding]:
    """Ask a server, through the store's own client, and judge it."""
    hello = client.execute({"hello": 1})
    yield version(client.execute({"buildInfo": 1}))
    yield transport(client.address)
    yield members(hello)
    yield writes(client.safety(), hello)
    yield engine(_status(client))
    yield collection(_listed(client, {"listCollections": 1, "filter": {"name": ENTRIES}}))
    yield indexes(_listed(client, {"listIndexes": ENTRIES}))
    yield findings.schema(run(schema_version(), Clients(client)), VERSION)
    before = current().time()
    [told] = client.execute({"find": META, "filter": {"_id": "schema"}, "projection": {"now": NOW}})
    yield findings.server_clock(told["now"], (before + current().time()) / 2)


def _status(client: Any) -> Told:
    """Read what the server says of its engine; many users may not."""
    try:
        told: Told = client.execute({"serverStatus": 1})
    except (Misconfigured, Unreachable):
        return {}
    return told


def _listed(client: Any, command: dict[str, Any]) -> list[Told]:
    reply = client.execute(command)
    listed: list[Told] = reply["cursor"]["firstBatch"]
    return listed


def version(told: Told) -> Finding:
    """Name the server."""
    return Finding("server", "ok", f"MongoDB {told['version']}")


def transport(address: Address) -> Finding:
    """Judge how the connection is protected, as the URL says."""
    do = "add tls=true to the URL (and tlsCAFile=FILE for an authority of your own), without tlsInsecure"
    if address.protection == "encrypted":
        do = "leave tlsInsecure, tlsAllowInvalidCertificates and tlsAllowInvalidHostnames out of the URL"
    return findings.encryption(address.hosts, address.protection, do)


def members(hello: Told) -> Finding:
    """Say who answers, and by whose clock."""
    if hello.get("msg") == "isdbgrid":
        return Finding(
            "members",
            "look",
            "a router of a sharded cluster, which was not tested",
            "routers with different clocks shorten or stretch leases by as much as they are apart",
            "use a replica set, or keep the clocks of all routers and shards together by NTP",
        )
    if name := hello.get("setName"):
        number = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
        return Finding("members", "ok", f"replica set {name}, {number} with data; this one is its primary")
    return Finding("members", "ok", "a single server: it, or nobody, answers")


def writes(safety: Told, hello: Told) -> Finding:
    """Judge what an acknowledged claim survives."""
    several = "setName" in hello or hello.get("msg") == "isdbgrid"
    asked = ", ".join(f"{name}={value}" for name, value in sorted(safety.items()))
    if safety.get("w") != "majority" and several:
        return Finding(
            "writes",
            "unsafe",
            f"{asked}: an answer comes before a majority has it",
            "a new primary may not know the last claims and receipts: their effects run again",
            "leave w out of the store's URL: it is then majority",
        )
    if not safety.get("j"):
        return Finding(
            "writes",
            "look",
            f"{asked}: an answer may come before the journal is on the disk",
            "a crash can undo the last tenth of a second: effects of that time run again, receipts are gone",
            "leave journal out of the store's URL: it is then true",
        )
    return Finding("writes", "ok", f"{asked}: what is answered is on the disk{_of_whom(several)}")


def _of_whom(several: bool) -> str:
    return "s of a majority" if several else ""


def engine(status: Told) -> Finding:
    """Judge whether the server keeps anything."""
    told = status.get("storageEngine")
    if told is None:
        text = "the server does not tell what it keeps its data in"
        lost = "nothing, unless it keeps them in memory only"
        return Finding("engine", "note", text, lost, "see storage.engine in its configuration: wiredTiger")
    if told.get("persistent", True):
        return Finding("engine", "ok", str(told["name"]))
    return Finding(
        "engine",
        "unsafe",
        f"{told['name']}, which keeps nothing on a disk",
        "a restart forgets everything: effects run again",
        "use a server with storage.engine wiredTiger",
    )


def collection(listed: Sequence[Told]) -> Finding:
    """Judge how the collection of entries was made, if others made it."""
    options = listed[0].get("options", {}) if listed else {}
    if options.get("capped"):
        return Finding(
            "collection",
            "unsafe",
            f"{ENTRIES} is capped: a full one throws its oldest entries away",
            "claims and receipts vanish: effects run twice, or two workers at once",
            f"copy it to one that is not capped, and rename that to {ENTRIES}",
        )
    if options.get("collation"):
        return Finding(
            "collection",
            "look",
            f"{ENTRIES} compares texts by the rules of {options['collation'].get('locale')}",
            "nothing, but the list of a scope may show entries of others that are spelt alike",
            f"copy it to one without a collation, and rename that to {ENTRIES}",
        )
    return Finding("collection", "ok", f"{ENTRIES}, neither capped nor collated")


def indexes(listed: Sequence[Told]) -> Finding:
    """Judge whether entries are found, and removed at last."""
    there = {index["name"] for index in listed}
    missing = [str(index["name"]) for index in INDEXES if index["name"] not in there]
    if OPEN_INDEX in missing:
        lost = "nothing is lost, but retries, recovery and lists are refused"
        return Finding("indexes", "look", f"missing: {', '.join(missing)}", lost, _MAKE)
    if missing:
        lost = "nothing, but what is forgotten stays until onefold store purge"
        return Finding("indexes", "note", f"missing: {', '.join(missing)}", lost, _MAKE)
    return Finding("indexes", "ok", "of open entries, and of what may be removed")
