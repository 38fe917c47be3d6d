"""The table of a DynamoDB ledger: made, waited for and checked, as flows over the same client; and printed.

The definition is `table.json`, which `aws dynamodb create-table` takes as it is. The number in the name of
its index is the version of the layout. Whoever may not create leaves everything as it is.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from onefold.core.errors import Misconfigured, OnefoldError, Unreachable
from onefold.stores.dynamodb.errors import NoTable
from onefold.stores.dynamodb.requests import INDEX, Request
from onefold.stores.shells import on_client

EXPIRY = "ttl"
"""The attribute by which DynamoDB itself may remove what is long forgotten."""

PATIENCE = 120.0
"""Seconds that a new table may take."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

VERSION = int(INDEX.rpartition("_")[2])


@cache
def _text() -> str:
    return (Path(__file__).parent / "table.json").read_text("utf-8")


def definition(table: str) -> dict[str, Any]:
    """Return what a table is made from, as `create_table` takes it."""
    return {**json.loads(_text()), "TableName": table}


def commands(table: str) -> str:
    """Return how to make the table by hand, and what its users must be allowed to do."""
    shown = json.dumps(definition(table), indent=2)
    actions = "PutItem DeleteItem BatchGetItem Query Scan DescribeTable"
    return (
        f"# The table of a ledger. Workers need dynamodb: {actions}, on the table and its index.\n"
        f"aws dynamodb create-table --cli-input-json '{shown}'\n"
        f"aws dynamodb wait table-exists --table-name {table}\n"
        "# Hygiene: DynamoDB removes what is done and long forgotten; nothing relies on it.\n"
        f"aws dynamodb update-time-to-live --table-name {table} "
        f"--time-to-live-specification Enabled=true,AttributeName={EXPIRY}\n"
    )


async def prepare(table: str, create: bool, name: str) -> None:
    """Make sure that the table is there and is a ledger's, or say why it cannot be used."""
    described = await _describe(table)
    missing = create and isinstance(described, NoTable)
    if missing:
        await _make(table)
        described = await _once_made(table, name)
    elif _is_being_made(described):
        described = await _once_made(table, name)
    if isinstance(described, OnefoldError):
        raise described
    check(described["Table"], name)
    if missing:
        await _expire(table)


async def _describe(table: str) -> Any:
    [outcome] = await on_client("execute_many", [Request("describe_table", {"TableName": table})])
    return outcome


async def _make(table: str) -> None:
    """Ask for a new table. Another may have been first, or the answer be lost: what is there will tell."""
    [made] = await on_client("execute_many", [Request("create_table", definition(table))])
    if isinstance(made, Misconfigured):
        raise made


async def _once_made(table: str, name: str) -> Any:
    """Wait until a table that is being made can be used; return how it is described then."""
    pause, waited = FIRST_PAUSE, 0.0
    while True:
        described = await _describe(table)
        if not (_is_being_made(described) or isinstance(described, NoTable)):
            return described
        if waited >= PATIENCE:
            raise Unreachable(f"{name} is still being made after {waited:.0f} s; look at it again later")
        await on_client("pause", pause)
        waited += pause
        pause = min(pause * 2, LONGEST_PAUSE)


async def _expire(table: str) -> None:
    """Let DynamoDB remove what is long forgotten. If that is not allowed, `doctor` tells; it is hygiene."""
    expiry = {"Enabled": True, "AttributeName": EXPIRY}
    request = Request("update_time_to_live", {"TableName": table, "TimeToLiveSpecification": expiry})
    await on_client("execute_many", [request])


def _is_being_made(described: Any) -> bool:
    if not isinstance(described, dict):
        return False
    table = described["Table"]
    return "CREATING" in (table["TableStatus"], *(index["IndexStatus"] for index in _indexes(table)))


def _indexes(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.get("GlobalSecondaryIndexes", [])
    return found


def check(table: dict[str, Any], name: str) -> None:
    """Say why a table, as AWS describes it, cannot hold a ledger of this version."""
    if table["TableStatus"] not in ("ACTIVE", "UPDATING"):
        raise Unreachable(f"{name} cannot be used now: it is {table['TableStatus'].lower()}")
    numbers = [
        int(n) for index in _indexes(table) for n in re.findall(r"^onefold_open_(\d+)$", index["IndexName"])
    ]
    if numbers and max(numbers) > VERSION:
        raise Misconfigured(
            f"{name} was made by a newer Onefold (layout {max(numbers)}, this one knows {VERSION}): "
            "upgrade with `pip install -U onefold`"
        )
    wanted = definition(name)
    same = table["KeySchema"] == wanted["KeySchema"] and _types(table).items() >= _types(wanted).items()
    [index] = wanted["GlobalSecondaryIndexes"]
    listed = [(each["IndexName"], each["KeySchema"]) for each in _indexes(table)]
    if not same or (index["IndexName"], index["KeySchema"]) not in listed:
        raise Misconfigured(
            f"{name} is not a ledger's: its key or its index {INDEX} is missing or another; "
            "name another table, which is then made, or see `onefold store sql dynamodb:`"
        )


def _types(table: dict[str, Any]) -> dict[str, str]:
    return {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
