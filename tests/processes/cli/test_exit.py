"""`onefold run` ends when it promised to, whatever hangs in its threads: only real processes show that.

Everything here hangs for ever. So a process that ends at all has not waited for it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from onefold.core.entry import State
from tests.processes.cli.stage import Working

pytestmark = pytest.mark.store("sqlite")

HANGS = '''\
"""Effects and sources that begin, and then hang for ever."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from onefold import Pipeline, Record
from onefold.core.record import Page
from onefold.sinks.function import Function
from onefold.sinks.transaction import Transaction
from onefold.sources.function import Function as Reads
from onefold.sources.replay import Replay
from onefold.tables import Database


def hang(*_):
    open("begun.txt", "w").close()
    threading.Event().wait()


def hang_in_a_pool(record):
    ThreadPoolExecutor(1).submit(hang).result()


async def hang_in_asyncio(record):
    await asyncio.to_thread(hang)


def hang_and_yield(cursor):
    hang()
    yield Record("r1", {}, 1)


async def endless(cursor):
    yield Page([Record("r1", {}, 1)])
    await asyncio.Event().wait()


def made(sink, reads=None):
    return Pipeline("hangs", sources={"feed": reads or Reads(endless)}, key=lambda r: r.id, sink=sink)


one_shot = made(Function(hang))
repeatable = made(Function(hang, effect="idempotent"))
in_a_pool = made(Function(hang_in_a_pool))
in_asyncio = made(Function(hang_in_asyncio))
joined = made(Transaction(Database("sqlite:///onefold.db"), hang))
source = made(Function(hang), Reads(hang_and_yield))
standing_input = made(Function(print), Replay("-", id=None))
'''


@pytest.fixture
def hanging(here: Path) -> Path:
    (here / "hangs.py").write_text(HANGS)
    return here


def stopped(folder: Path, name: str) -> tuple[int, str, str]:
    """Run a worker until it hangs, and tell it to stop."""
    worker = Working(folder, f"hangs.py:{name}", "--grace", "100ms", "--store", "sqlite:///onefold.db")
    try:
        worker.until(lambda: (folder / "begun.txt").exists())
        worker.signal(signal.SIGTERM)
        code, printed = worker.end()
        return code, printed, worker.log
    finally:
        worker.kill()


def state(folder: Path, part: str = "r1") -> tuple[State, str | None] | None:
    ledger = Ledger(f"sqlite:///{folder}/onefold.db")
    found = ledger.look(Key("hangs", part))
    ledger.close()
    return None if found is None else (found.state, found.why)


@pytest.mark.parametrize("name", ["one_shot", "in_a_pool", "in_asyncio"])
def test_a_one_shot_effect_that_hangs_in_a_thread_is_in_doubt_and_the_process_ends(hanging: Path, name: str):
    code, printed, log = stopped(hanging, name)

    assert code == Code.PERSON, log
    assert printed == "hangs/feed: 1 record seen, 1 in-doubt\n"
    assert state(hanging) == ("parked", "in-doubt")


def test_a_repeatable_effect_that_hangs_in_a_thread_stays_held_and_the_process_ends(hanging: Path):
    code, printed, log = stopped(hanging, "repeatable")

    assert code == Code.FINE, log
    assert printed == "hangs/feed: 1 record seen\n"
    assert state(hanging) == ("held", None)
    assert "still run in a thread" in log


def test_a_transaction_that_hangs_is_rolled_back_by_the_end_of_its_process(hanging: Path):
    code, _, log = stopped(hanging, "joined")

    assert code == Code.FINE, log
    assert state(hanging) is None


def test_a_source_that_hangs_in_a_thread_does_not_keep_the_process(hanging: Path):
    code, printed, log = stopped(hanging, "source")

    assert code == Code.FINE, log
    assert printed == "hangs/feed: 0 records seen\n"


def test_a_pipe_that_says_nothing_does_not_keep_the_process(hanging: Path):
    reading, writing = os.pipe()
    store = ("--store", "sqlite:///onefold.db")
    worker = Working(hanging, "hangs.py:standing_input", *store, stdin=reading)
    try:
        os.write(writing, b'{"n": 1}\n')
        worker.until(lambda: state(hanging, "1") == ("done", None))
        worker.signal(signal.SIGTERM)
        code, _ = worker.end()
    finally:
        worker.kill()
        os.close(reading)
        os.close(writing)

    assert code == Code.FINE, worker.log
