"""The collections of the MongoDB store: made, versioned, checked, as a flow over its client; and printed.

Whoever may not create leaves the database as it is. The version is noted last, so that whoever died on the
way is followed by somebody who makes the rest.
"""

from __future__ import annotations

import json
from typing import Any

from onefold.core.errors import Misconfigured, Unreachable
from onefold.stores.mongodb.documents import ENTRIES, OPEN_INDEX
from onefold.stores.shells import on_client
from onefold.stores.versions import refuse_newer, refuse_other

META = "onefold_meta"
VERSION = 1
"""The number of the layout that this Onefold reads and writes."""

OLDEST = 9
"""The wire version of MongoDB 4.4, the first whose looks can tell what time it is."""

INDEXES: list[dict[str, Any]] = [
    {
        "name": OPEN_INDEX,
        "key": {"state": 1, "scope": 1, "due": 1, "_id": 1},
        "partialFilterExpression": {"due": {"$exists": True}},
    },
    {"name": "onefold_ttl", "key": {"ttl": 1}, "expireAfterSeconds": 0},
]
"""Open entries only, for lists and retries; and what the server may remove, long after it is forgotten."""

_NOTE = {"q": {"_id": "schema"}, "u": {"$setOnInsert": {"version": VERSION}}, "upsert": True}


async def prepare(create: bool, name: str) -> None:
    """Make sure that the server can be used, and that a ledger is there; make one if that is wanted."""
    _judge(await on_client("execute", {"hello": 1}), name)
    version = await schema_version()
    if version == VERSION:
        return
    refuse_newer(name, version, VERSION)
    if not create:
        refuse_other(name, version, VERSION)
    await on_client("execute", {"createIndexes": ENTRIES, "indexes": INDEXES})
    await on_client("execute", {"update": META, "updates": [_NOTE]})


async def schema_version() -> int:
    """Return the version of the layout that this database was made with, 0 if there is none."""
    notes = await on_client(
        "execute", {"find": META, "filter": {"_id": "schema"}, "limit": 1, "batchSize": 2}
    )
    return int(notes[0]["version"]) if notes else 0


async def read_clock(now: Any) -> float:
    """Return the server's time, in seconds since 1970. `now` is the expression that reads it."""
    # A look can compute the clock only beside a document, and this one is in every ledger.
    notes = await on_client(
        "execute",
        {
            "find": META,
            "filter": {"_id": "schema"},
            "projection": {"_id": 0, "now": now},
            "limit": 1,
            "batchSize": 2,
        },
    )
    if not notes:
        raise Misconfigured(
            f"the note of the ledger's version in {META} is gone; nothing was written. "
            "Restart the worker: it writes the note again"
        )
    return float(notes[0]["now"])


def _judge(hello: dict[str, Any], name: str) -> None:
    if hello["maxWireVersion"] < OLDEST:
        raise Misconfigured(f"{name} is too old: Onefold needs MongoDB 4.4 or later")
    if not hello.get("isWritablePrimary"):
        raise Unreachable(
            f"{name} is not the primary, and claims are made there only; nothing was asked. "
            "Name all members in the URL, or replicaSet=, without directConnection"
        )


def script() -> str:
    """Return what makes the collections by hand, for mongosh."""
    indexes = [
        f"db.{ENTRIES}.createIndex({json.dumps(index['key'])}, {json.dumps(_options(index))});\n"
        for index in INDEXES
    ]
    note = ", ".join(json.dumps(_NOTE[part]) for part in ("q", "u"))
    return (
        '// The collections of a ledger: mongosh "mongodb://…/onefold" FILE\n'
        f"// Workers need find, insert, update and remove on {ENTRIES}, and find on {META}.\n"
        "// Open entries only: lists, retries and recovery read this, however many are done.\n"
        f"{indexes[0]}"
        "// Hygiene: the server removes what is done and long forgotten; nothing relies on it.\n"
        f"{indexes[1]}"
        "// What this database was written by.\n"
        f'db.{META}.updateOne({note}, {{"upsert": true}});\n'
    )


def _options(index: dict[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in index.items() if option != "key"}
