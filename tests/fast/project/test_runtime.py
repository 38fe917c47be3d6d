"""Nothing waits, draws random numbers or opens a connection except through the runtime.

The rule is a function from syntax trees to complaints. It is held against the package, and against planted
violations that prove it can fail. An exception needs a row with its reason.
"""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.checkout import ROOT

SOURCE = ROOT / "src" / "onefold"

PARTS = ("apps", "cli", "drive", "ledger", "sinks", "sources", "tables", "worker")
STORES = ("memory.py", "sqlite", "dynamodb", "cassandra", "homes.py", "shells.py")
"""Stores that wait in this process. The others wait for the socket of their own client."""

FORBIDDEN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "asyncio": {"open_connection", "sleep", "to_thread", "create_subprocess_exec", "create_subprocess_shell"},
    "anyio": {"sleep", "sleep_until", "sleep_forever", "to_thread", "run_process", "open_process"},
    "random": {"*"},
    "secrets": {"*"},
    "os": {"urandom", "popen", "system"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"now", "utcnow", "today"},
    "subprocess": {"*"},
    "threading": {"Thread", "Timer"},
    "concurrent.futures": {"ThreadPoolExecutor"},
    "smtplib": {"*"},
    "httpx2": {"*"},
    "websockets": {"*"},
}  # fmt: skip

CLOCKS = {f"time.{name}" for name in FORBIDDEN["time"] - {"sleep"}} | {
    f"datetime.{name}" for name in FORBIDDEN["datetime"]
}
"""What tells the machine's time. Real sleeps in fast tests are found while they run."""

ALLOWED = {
    "drive/awaiting.py": {
        "anyio.to_thread": "stores in threads; with a runtime that is inline, none is used",
        "threading.Thread": "the thread of a store; with a runtime that is inline, none is started",
    },
    "drive/hearts.py": {
        "threading.Thread": "the heartbeat of a blocking ledger; none is started where the runtime has a loop"
    },
    "stores/dynamodb/client.py": {
        "concurrent.futures.ThreadPoolExecutor": "a batch is sent side by side; the client knows no other way"
    },
    "worker/leaving.py": {
        "threading.Timer": "ends a real process when that was promised",
        "threading.Thread": "the last flush of that process",
    },
}


def uses(text: str) -> Iterator[str]:
    """Name everything that a module takes from the modules above: `time.sleep`, `random.random`."""
    tree = ast.parse(text)
    modules: dict[str, str] = {}
    classes: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for one in names:
                    yield from _imported(one.name)
                    modules[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                for one in names:
                    yield from _taken(module, one.name)
                    if (module, one.name) in (("datetime", "datetime"), ("datetime", "date")):
                        classes.add(one.asname or one.name)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in modules:
                yield from _taken(modules[name], attr)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in classes:
                yield from _taken("datetime", attr)


def _imported(module: str) -> Iterator[str]:
    """A module that is forbidden as a whole may not even be imported."""
    top = module.partition(".")[0]
    if "*" in FORBIDDEN.get(top, ()):
        yield f"{top}.*"
    yield from _taken(*module.rpartition(".")[::2])


def _taken(module: str, name: str) -> Iterator[str]:
    top = module.partition(".")[0]
    if "*" in FORBIDDEN.get(top, ()):
        yield f"{top}.*"
    elif name in FORBIDDEN.get(module, ()):
        yield f"{module}.{name}"


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        if parts[0] in PARTS or (parts[0] == "stores" and len(parts) > 1 and parts[1] in STORES):
            yield str(path.relative_to(SOURCE)), path.read_text("utf-8")


@cache
def found() -> set[tuple[str, str]]:
    """Return what each module uses; the trees are read once."""
    return {(name, used) for name, text in modules() for used in uses(text)}


def test_everything_that_waits_or_draws_asks_the_runtime():
    complaints = [
        f"{name} uses {used}: ask onefold.runtime.current() instead"
        for name, used in sorted(found())
        if used not in ALLOWED.get(name, ())
    ]

    assert complaints == []


def test_fast_tests_read_no_clock_of_the_machine():
    """Their time of day is the loop's. A test that compares the two holds on some days only."""
    folder = ROOT / "tests" / "fast"
    complaints = [
        f"{path.relative_to(ROOT)} uses {used}: ask onefold.runtime.current() instead"
        for path in sorted(folder.rglob("*.py"))
        for used in sorted(set(uses(path.read_text("utf-8"))))
        if used in CLOCKS
    ]

    assert complaints == []


def test_no_exception_outlives_its_reason():
    listed = {(name, used) for name, rows in ALLOWED.items() for used in rows}

    assert listed - found() == set()


def test_all_parts_are_looked_at():
    seen = {name.partition("/")[0] for name, _ in modules()}

    assert seen == {*PARTS, "stores"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time\nx = time.time()", "time.time"),
        ("import time\ndef f(clock=time.monotonic): ...", "time.monotonic"),
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import sleep", "time.sleep"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", "asyncio.sleep"),
        ("import asyncio\nasyncio.open_connection('h', 1)", "asyncio.open_connection"),
        ("from asyncio import to_thread", "asyncio.to_thread"),
        ("import anyio\nasync def f():\n    await anyio.sleep(1)", "anyio.sleep"),
        ("import anyio.to_thread", "anyio.to_thread"),
        ("from anyio import to_thread", "anyio.to_thread"),
        ("import random", "random.*"),
        ("def f():\n    from random import Random", "random.*"),
        ("from secrets import token_hex", "secrets.*"),
        ("from os import urandom", "os.urandom"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("from uuid import uuid4", "uuid.uuid4"),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", "datetime.now"),
        ("from datetime import date\ndate.today()", "datetime.today"),
        ("import subprocess", "subprocess.*"),
        ("import threading\nthreading.Thread()", "threading.Thread"),
        ("import smtplib", "smtplib.*"),
        ("import httpx2", "httpx2.*"),
        ("from websockets.asyncio.client import connect", "websockets.*"),
    ],
)
def test_a_planted_violation_is_found(text, expected):
    assert set(uses(text)) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nthreading.Lock()",
        "import asyncio\nasyncio.get_running_loop()",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)",
        "from uuid import UUID",
        "class One:\n    def time(self): ...\nOne().time()",
        "from onefold.runtime import current\ncurrent().time()",
    ],
)
def test_what_is_allowed_raises_no_complaint(text):
    assert list(uses(text)) == []
