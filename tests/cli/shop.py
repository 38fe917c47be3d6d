"""A small shop in the current folder: a pipeline over a file, an app, settings; and workers as processes.

It asserts nothing. What happened outside is read from the file that the effects write, never from Onefold.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.stage import PATIENCE, command, process
from tests.waiting import wait_for

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


def run_once(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a worker to its end."""
    return process("run", *words, "--once")


class Working:
    """A worker as a process; its log goes to a file, and can be waited for."""

    def __init__(self, folder: Path, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        self._log = folder / f"log-{len(list(folder.glob('log-*')))}.txt"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command("run", *words),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something; a worker that ends before it is an error."""
        wait_for(condition, PATIENCE, meanwhile=self._still_lives, story=lambda: self.log)

    def _still_lives(self) -> None:
        assert self.process.poll() is None, f"the worker ended: {self.log}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was printed."""
        try:
            printed, _ = self.process.communicate(timeout=PATIENCE)
        finally:
            self.kill()
        return self.process.returncode, printed

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout:
            self.process.stdout.close()
