"""DynamoDB by hand: a put where nothing is, and an update on the token, through `boto3`.

It has no conditional write of many, so a batch is as many requests, a number of them at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import WIDTH, connected
from onefold.stores.dynamodb.items import place, shard


class Hand:
    """A client, whose connections threads share."""

    def __init__(self, url: str) -> None:
        at = address(url)
        self.client = connected(at)
        self._table = at.table
        self._threads = ThreadPoolExecutor(WIDTH)

    @property
    def durability(self) -> str:
        return "the server's own, which it does not tell"

    def claim_one(self, item: Item) -> bool:
        try:
            self.client.put_item(
                TableName=self._table,
                Item=_written(item),
                ConditionExpression="attribute_not_exists(id)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            return _refused(error)
        return True

    def settle_one(self, item: Item) -> bool:
        try:
            self.client.update_item(
                TableName=self._table,
                Key={"id": {"B": item.id}},
                UpdateExpression="SET #state = :done, body = :body, version = :next REMOVE #open, due",
                ConditionExpression="#token = :mine AND #state = :held",
                ExpressionAttributeNames={"#state": "state", "#open": "open", "#token": "token"},
                ExpressionAttributeValues={
                    ":done": {"S": "done"},
                    ":held": {"S": "held"},
                    ":mine": {"S": item.token},
                    ":body": {"S": RECEIPT},
                    ":next": {"N": str(item.version + 1)},
                },
            )
        except ClientError as error:
            return _refused(error)
        return True

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        won = self._threads.map(self.claim_one, items)
        return {item.id for item, is_won in zip(items, won, strict=True) if is_won}

    def settle(self, items: Sequence[Item]) -> int:
        return sum(self._threads.map(self.settle_one, items))

    def close(self) -> None:
        self._threads.shutdown()
        self.client.close()


def _refused(error: ClientError) -> bool:
    if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
        raise error
    return False


def _written(item: Item) -> dict[str, Any]:
    now, version = repr(item.now), str(item.version)
    texts = {"scope": SCOPE, "state": "held", "token": item.token, "effect": "one-shot", "source": ""}
    texts |= {"label": item.label, "open": place("held", shard(item.id))}
    numbers = {"version": version, "fence": version, "begun": now, "lease": str(LEASE), "written": now}
    numbers |= {"attempt": "1", "due": repr(item.now + LEASE)}
    written: dict[str, Any] = {"id": {"B": item.id}}
    written |= {name: {"S": value} for name, value in texts.items()}
    return written | {name: {"N": value} for name, value in numbers.items()}
