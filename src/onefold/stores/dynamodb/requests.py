"""What is asked of DynamoDB, as values: one request per item written, a page of the index, a walk, a look.

Pure: a request is built here and sent by `client`. Conditions compare versions and nothing else, except for a
removal, which may take only what is done and expired.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.core.entry import Change, Entry
from onefold.core.errors import OnefoldError
from onefold.stores.dynamodb.items import Item, item, number

INDEX = "onefold_open_1"
"""The index of open entries; its number is the version of the layout."""

BATCH = 100
"""The most items that one look may ask for."""

DONE = "done"
"""The place where done entries are walked; every other place is a part of the index."""


class Request(NamedTuple):
    """One operation of DynamoDB, as `boto3` names it, and its arguments."""

    operation: str
    arguments: dict[str, Any]


class Refusal(NamedTuple):
    """A condition did not hold, and nothing was written. `item` is what is stored, if the server says."""

    item: Item | None


Outcome = dict[str, Any] | Refusal | OnefoldError
"""What became of a request: its reply, or why there is none."""


class Position(NamedTuple):
    """Where a scan goes on: a place, and the last row of it that was read."""

    place: str
    due: str = ""
    id: str = ""

    def text(self) -> str:
        return json.dumps(self)

    @classmethod
    def after(cls, place: str, row: Item) -> Position:
        """Go on behind a row, or behind the last one that was looked at."""
        return cls(place, row["due"]["N"] if place != DONE else "", bytes(row["id"]["B"]).hex())


def write(table: str, change: Change, entry: Entry | None, now: float) -> Request:
    """Ask for one change: on the version that was seen, or where there was nothing."""
    if entry is None:
        return _remove(table, change, now)
    arguments: dict[str, Any] = {"Item": item(change.key, entry)}
    if change.expected is None:
        arguments["ConditionExpression"] = "attribute_not_exists(id)"
    else:
        arguments["ConditionExpression"] = "version = :expected"
        arguments["ExpressionAttributeValues"] = {":expected": number(change.expected)}
    return Request("put_item", _telling(table, arguments))


def _remove(table: str, change: Change, now: float) -> Request:
    expected = number(-1 if change.expected is None else change.expected)
    arguments = {
        "Key": {"id": {"B": change.key.id}},
        "ConditionExpression": "version = :expected AND #state = :done AND expires <= :now",
        "ExpressionAttributeNames": {"#state": "state"},
        "ExpressionAttributeValues": {":expected": expected, ":done": {"S": DONE}, ":now": number(now)},
    }
    return Request("delete_item", _telling(table, arguments))


def _telling(table: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let a refusal tell what is stored, so that a loser need not look."""
    return {"TableName": table, **arguments, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def look(table: str, ids: Sequence[bytes]) -> Request:
    """Ask for items as they are now, at most `BATCH` of them."""
    keys = [{"id": {"B": id}} for id in ids]
    return Request("batch_get_item", {"RequestItems": {table: {"Keys": keys, "ConsistentRead": True}}})


def page(table: str, at: Position, scope: str | None, until: float | None, limit: int) -> Request:
    """Ask for a page of one place; `until` leaves out what is due later."""
    if at.place == DONE:
        return _walk(table, at, scope, limit)
    names, values = {"#open": "open"}, {":place": {"S": at.place}}
    condition = "#open = :place"
    if until is not None:
        condition += " AND due <= :until"
        values[":until"] = number(until)
    arguments = {
        "TableName": table,
        "IndexName": INDEX,
        "KeyConditionExpression": condition,
        "Limit": limit,
        **_only(scope, "", names, values),
    }
    if at.id:
        arguments["ExclusiveStartKey"] = {
            "open": {"S": at.place},
            "due": {"N": at.due},
            "id": {"B": bytes.fromhex(at.id)},
        }
    return Request("query", arguments)


def _walk(table: str, at: Position, scope: str | None, limit: int) -> Request:
    names, values = {"#state": "state"}, {":done": {"S": DONE}}
    arguments = {
        "TableName": table,
        "ConsistentRead": True,
        "Limit": limit,
        **_only(scope, "#state = :done", names, values),
    }
    if at.id:
        arguments["ExclusiveStartKey"] = {"id": {"B": bytes.fromhex(at.id)}}
    return Request("scan", arguments)


def _only(scope: str | None, test: str, names: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
    """Let the server leave out what is not asked for."""
    tests = [test] if test else []
    if scope is not None:
        tests.append("#scope = :scope")
        names["#scope"], values[":scope"] = "scope", {"S": scope}
    told: dict[str, Any] = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
    return {**told, "FilterExpression": " AND ".join(tests)} if tests else told
