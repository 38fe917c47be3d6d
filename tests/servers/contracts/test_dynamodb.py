"""DynamoDB keeps the contract of stores, on AWS's own DynamoDB Local, in both colours.

DynamoDB has no clock, so the worker's is the store's, and the tests give it theirs. One table serves all of
them, emptied in between, because making one takes longer than most promises. It is made without an expiry of
its own: the tests live in the past, and DynamoDB Local would remove within seconds what expired then. Its
server keeps everything in memory: thousands of writes need not wait for a disk here, and no crash is tested.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from onefold.core.ports import AsyncStore, Store
from onefold.testing.contract import FakeClock, StoreContract
from onefold.testing.model import compare
from tests.launchers.dynamodb import Dynamodb
from tests.launchers.fixtures import excuse
from tests.launchers.server import Command, Missing, Program, running

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import aconnect, connect
from onefold.stores.dynamodb.address import MAX_SKEW, address
from onefold.stores.dynamodb.client import connected
from onefold.stores.dynamodb.schema import definition

pytestmark = pytest.mark.store("dynamodb")


MANY = 100
"""Items from which on making a new table is quicker than emptying it."""


@dataclass(frozen=True)
class InMemory:
    """DynamoDB Local, started so that it writes no files."""

    program: Program
    origin: str

    def prepare(self, folder: Path) -> None:
        self.program.prepare(folder)

    def command(self, folder: Path, port: int) -> Command:
        command = self.program.command(folder, port)
        args = [str(arg) for arg in command.args]
        at = args.index("-dbPath")
        return replace(command, args=[*args[:at], "-inMemory", *args[at + 2 :]])


class QuickDynamodb(Dynamodb):
    def locate(self) -> Program:  # type: ignore[override]
        installed = super().locate()
        return InMemory(installed, installed.origin)


class Table:
    """A table of the tests' own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = address(url).table
        self._client: Any = connected(address(url))
        self._client.create_table(**definition(self.name))

    def empty(self) -> str:
        """Remove everything; return the URL."""
        pages = self._client.get_paginator("scan").paginate(TableName=self.name, ProjectionExpression="id")
        keys = [{"DeleteRequest": {"Key": item}} for page in pages for item in page["Items"]]
        if len(keys) > MANY:
            self._client.delete_table(TableName=self.name)
            self._client.create_table(**definition(self.name))
            return self.url
        for at in range(0, len(keys), 25):
            self._client.batch_write_item(RequestItems={self.name: keys[at : at + 25]})
        return self.url


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(QuickDynamodb()))
        except Missing as missing:
            excuse(f"dynamodb: {missing}")
        yield Table(stack.enter_context(server.place()))


class OnDynamodb(StoreContract):
    table: Table
    max_skew = MAX_SKEW

    @pytest.fixture(autouse=True)
    def somewhere(self, table: Table) -> None:
        self.table = table


@pytest.mark.slow  # every day awaited, as workers use it
class TestDynamodb(OnDynamodb):
    name = "dynamodb"

    def open(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.table.empty(), clock=clock)

    def reopen(self, folder: Path, clock: FakeClock) -> Store:
        return connect(self.table.url, clock=clock)


class TestDynamodbAwaited(OnDynamodb):
    name = "dynamodb"

    def open(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.table.empty(), clock=clock)

    def reopen(self, folder: Path, clock: FakeClock) -> AsyncStore:
        return aconnect(self.table.url, clock=clock)


def test_dynamodb_replies_as_memory_does(table):
    def open_(folder: Path, clock: FakeClock) -> Store:
        return connect(f"{table.empty()}&max_skew=0", clock=clock)

    compare(open_, examples=10, steps=15)
