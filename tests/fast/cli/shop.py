"""A small shop in the current folder: a pipeline over a file, an app, and settings.

It asserts nothing. What happened outside is read from the file that the effects write, never from Onefold.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

PRICES = '''\
"""Reads feed.jsonl, and writes what it does into outside.txt; `slow` waits for the file `go`."""

import json
import os
import time

import anyio

from onefold import Pipeline, Record, Refused, Terms
from onefold.core.errors import Rejected
from onefold.core.record import Page
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads


def shown():
    with open("feed.jsonl") as file:
        return [Record(line["id"], line, line["at"]) for line in map(json.loads, file)]


def act(record):
    trouble = record.body.get("trouble")
    if trouble == "doubt":
        raise TimeoutError("no answer from https://ann:hunter2@bank.example")
    if trouble == "refused":
        raise Refused("the market is closed")
    if trouble == "rejected":
        raise Rejected("there is no such market")
    with open("outside.txt", "a") as file:
        file.write(record.id + "\\n")
    return record.id


async def slow(record):
    with open("begun.txt", "a") as file:
        file.write(record.id + "\\n")
    while not os.path.exists("go"):
        await anyio.sleep(0.01)
    return act(record)


async def endless(cursor):
    yield Page(shown())
    await anyio.sleep_forever()


async def polled(cursor):
    yield Page([record for record in shown() if cursor.at is None or record.at >= cursor.at])


def tell(record, claim):
    with open("outside.txt", "a") as file:
        file.write(f"{record.id}/{claim.name}\\n")


def made(name, reads, does, each=None, **more):
    more = {"effect": "one-shot", **more}
    return Pipeline(name, sources={"feed": reads}, key=lambda record: record.id, each=each,
                    sink=Function(does, **more), terms=Terms(lease=5, backoff=(0.1, 1)), at_once=2)


pipeline = made("prices", Reads(lambda cursor: shown(), finite=True), act)
live = made("prices", Reads(endless), act)
polls = made("prices", Reads(polled, every=0.05), act)
waits = made("prices", Reads(endless), slow)
waits_again = made("prices", Reads(endless), slow, effect="idempotent")
'''

TELLER = '''\
"""Tells subscribers about prices."""

import msgspec

from onefold.worker.secret import Secret
from prices import made, polled, tell, Reads, act, shown


class Settings(msgspec.Struct, frozen=True):
    chat_token: Secret
    minimum: float = 10_000.0
    follow: bool = False


LIVE = {"subscribers": list[str]}


def pipelines(settings, live):
    if settings.follow:
        names = live.setting("subscribers", LIVE["subscribers"])

        async def each(record):
            return await names.value()

        return made("told", Reads(polled, every=0.05), tell, each=each)
    return made("told", Reads(lambda cursor: shown(), finite=True), act)
'''

TOML = """\
store = "sqlite:///onefold.db"

[pipelines.prices]
use = "prices:pipeline"

[apps.whales]
use = "teller"
chat_token = "env:CHAT_TOKEN"
"""


def open_shop(folder: Path, *records: dict[str, Any]) -> None:
    """Write the shop's files."""
    (folder / "prices.py").write_text(PRICES)
    (folder / "teller.py").write_text(TELLER)
    (folder / "onefold.toml").write_text(TOML)
    (folder / "subscribers.json").write_text('["ann", "bob"]')
    feed(folder, *(records or ({"id": "r1", "at": 1}, {"id": "r2", "at": 2})))


def feed(folder: Path, *records: dict[str, Any]) -> None:
    with (folder / "feed.jsonl").open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in records)


def outside(folder: Path) -> Counter[str]:
    """Count what happened outside."""
    path = folder / "outside.txt"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def begun(folder: Path) -> int:
    path = folder / "begun.txt"
    return len(path.read_text().split()) if path.exists() else 0
