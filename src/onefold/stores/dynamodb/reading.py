"""Reads a table of somebody else's, whole: for moving what it remembers into a ledger.

Consistent pages, in the order of the server, each item as DynamoDB writes it (`{"id": {"S": "…"}}`). It
writes nothing, and checks nothing about the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from onefold.core.errors import OnefoldError
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import Link, connected
from onefold.stores.dynamodb.requests import Request


def items(url: str) -> Iterator[dict[str, Any]]:
    """Give every item of the table that `dynamodb://REGION/TABLE?endpoint=URL` names."""
    found = address(url)
    start: dict[str, Any] = {}
    with closing(Link(connected(found), found.name)) as link:
        while True:
            asked = {"TableName": found.table, "ConsistentRead": True, **start}
            [page] = link.execute_many([Request("scan", asked)])
            if isinstance(page, OnefoldError):
                raise page
            assert isinstance(page, dict), "a scan has no condition that could be refused"
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
