"""MongoDB by hand: an insert that finds its id taken or not, an update on the token, through `pymongo`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pymongo import MongoClient, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item
from onefold.stores.mongodb.address import address
from onefold.stores.mongodb.documents import ENTRIES


class Hand:
    """A client with its pool, and the collection of entries."""

    def __init__(self, url: str) -> None:
        at = address(url)
        self.client: MongoClient[dict[str, Any]] = MongoClient(at.url, **at.settings)
        self.entries = self.client[at.database][ENTRIES]

    @property
    def durability(self) -> str:
        return durability(self.client)

    def claim_one(self, item: Item) -> bool:
        try:
            self.entries.insert_one(_document(item))
        except DuplicateKeyError:
            self.entries.find_one({"_id": item.id})
            return False
        return True

    def settle_one(self, item: Item) -> bool:
        return self.entries.update_one(*_end(item)).matched_count == 1

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        ids = [item.id for item in items]
        try:
            self.entries.insert_many([_document(item) for item in items], ordered=False)
        except BulkWriteError as error:
            lost = [ids[one["index"]] for one in error.details["writeErrors"]]
            list(self.entries.find({"_id": {"$in": lost}}))
            return set(ids).difference(lost)
        return set(ids)

    def settle(self, items: Sequence[Item]) -> int:
        ends = [UpdateOne(*_end(item)) for item in items]
        return self.entries.bulk_write(ends, ordered=False).matched_count

    def close(self) -> None:
        self.client.close()


def durability(client: Any) -> str:
    """Say what a client of pymongo's asks for, as it was read back."""
    return said(client.write_concern.document)


def said(concern: Mapping[str, Any]) -> str:
    """Name what a write waits for before it is answered."""
    return ", ".join(f"{name}={value}" for name, value in sorted(concern.items()))


def _document(item: Item) -> dict[str, Any]:
    now = item.now
    return {
        "_id": item.id, "scope": SCOPE, "state": "held", "token": item.token, "version": item.version,
        "fence": item.version, "effect": "one-shot", "begun": now, "lease": LEASE, "written": now,
        "attempt": 1, "label": item.label, "source": "", "due": now + LEASE,
    }  # fmt: skip


def _end(item: Item) -> tuple[dict[str, Any], dict[str, Any]]:
    mine = {"_id": item.id, "token": item.token, "state": "held"}
    done = {"state": "done", "written": item.now, "body": RECEIPT}
    return mine, {"$set": done, "$inc": {"version": 1}, "$unset": {"due": ""}}
