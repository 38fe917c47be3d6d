"""Without the packages of an extra, every entry point names the extra to install.

Packages are made unimportable in a process for each test, as if they had never been installed.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT

NURSERY = """
import asyncio, contextlib, importlib, io, json, os, sys, traceback

# What every command needs, so that children need not import it.
import onefold.cli.run, onefold.ledger, onefold.stores, onefold.worker.running


class Hidden:
    def __init__(self, names):
        self.names = names
        assert not sys.modules.keys() & set(names), "too late: it is imported"

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def command(*words):
    from onefold.cli.root import onefold

    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = onefold.main(words, standalone_mode=False)
    return int(code), told.getvalue()


def raised(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)


def asked(url):
    from onefold import AsyncLedger, Key, Ledger

    key = Key("charges", "A-17")
    return {
        "Ledger": raised(lambda: Ledger(url).look(key)),
        "AsyncLedger": raised(lambda: asyncio.run(AsyncLedger(url).look(key))),
    }


def answered(hidden, folder, expression, given):
    os.chdir(folder)
    sys.meta_path.insert(0, Hidden(hidden))
    return eval(expression, {**globals(), **given})


for line in sys.stdin:
    if os.fork() == 0:
        sys.stdin = open(os.devnull)
        try:
            told = {"answer": answered(*json.loads(line))}
        except BaseException:
            told = {"error": traceback.format_exc()}
        print(json.dumps(told), flush=True)
        os._exit(0)
    os.wait()
"""

SHOP = """
from onefold import Pipeline, Record
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads

orders = Reads(lambda cursor: [Record("A-17", {}, 17)], finite=True)
pipeline = Pipeline("charges", sources={"orders": orders}, key=lambda record: record.id, sink=Function(print))
"""

STORES = [
    ("postgresql", "psycopg", "postgresql://db/shop"),
    ("redis", "redis", "redis://cache/0"),
    ("redis", "redis", "valkey://cache/0"),
    ("mongodb", "pymongo", "mongodb://db/shop"),
    ("mariadb", "pymysql", "mariadb://db/shop"),
    ("mariadb", "aiomysql", "mysql://db/shop"),
    ("dynamodb", "boto3", "dynamodb://eu-central-1/shop"),
    ("cassandra", "cassandra", "cassandra://db/shop"),
]


Without = Callable[..., Any]


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process in which no package is missing yet, and which has a child for every question."""
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nursery:
        yield nursery
        assert nursery.stdin is not None
        nursery.stdin.close()


@pytest.fixture
def without(nursery: subprocess.Popen[str], here: Path) -> Without:
    """Evaluate an expression in a process that cannot import some packages."""

    def ask(packages: list[str], expression: str, **given: Any) -> Any:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        print(json.dumps([packages, str(here), expression, given]), file=nursery.stdin, flush=True)
        told = json.loads(nursery.stdout.readline())
        assert "error" not in told, told["error"]
        return told["answer"]

    return ask


def test_every_extra_with_packages_of_its_own_is_tested_here():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    tested = {extra for extra, _, _ in STORES} | {"worker", "copytrade", "testing"}

    assert project["optional-dependencies"].keys() == tested | {"all"}


@pytest.mark.parametrize(("extra", "package", "url"), STORES)
def test_without_the_client_of_a_store_every_entry_point_names_the_extra(
    extra: str, package: str, url: str, here: Path, without: Without
):
    (here / "shop.py").write_text(SHOP)
    ways = """{
        "status": command("status", "--store", url),
        "run": command("run", "shop.py:pipeline", "--store", url),
        "doctor": command("doctor", url),
        "purge": command("store", "purge", "-y", "--store", url),
        "sql": command("store", "sql", url),
        **asked(url),
    }"""
    install = f'pip install "onefold[{extra}]"'

    answers = without([package], ways, url=url)

    for name in ("Ledger", "AsyncLedger"):
        kind, message = answers.pop(name)
        assert (kind, install in message) == ("NotInstalled", True)
        assert f"the store {extra} needs {package}, which is not installed" in message
    for name, (code, message) in answers.items():
        assert code == 2, name
        assert f"error: the client library of the store {extra} is not installed\n" in message
        assert f"try     {install}\n" in message


@pytest.mark.parametrize(
    ("package", "apps", "extra"),
    [
        ("httpx2", ["whales"], "worker"),
        ("websockets", ["whales"], "worker"),
        ("websockets", [], "copytrade"),
        ("eth_abi", ["whales", "copytrade"], "copytrade"),
        ("eth_hash", [], "copytrade"),
        ("Crypto", [], "copytrade"),
    ],
)
def test_the_demo_names_the_extra_that_it_needs(package: str, apps: list[str], extra: str, without: Without):
    words = ["demo", *(word for app in apps for word in ("--app", app))]

    code, message = without([package], "command(*words)", words=words)

    assert code == 2
    assert f"error: the demo needs {package}, which is not installed\n" in message
    assert f'try     pip install "onefold[{extra}]"\n' in message


def test_the_demo_names_all_that_it_lacks(without: Without):
    code, message = without(["httpx2", "websockets"], "command('demo')")

    assert code == 2
    assert "error: the demo needs httpx2, websockets, which are not installed\n" in message


@pytest.mark.parametrize("package", ["eth_abi", "eth_hash", "Crypto"])
def test_an_app_names_the_extra_that_it_needs_before_a_worker_runs(
    package: str, here: Path, without: Without
):
    (here / "onefold.toml").write_text('store = "sqlite:///onefold.db"\n[apps.copytrade]\n')

    code, message = without([package], "command('run', 'copytrade')")

    assert code == 2
    assert message.startswith("error: the app copytrade ")
    assert 'pip install "onefold[copytrade]"' in message


@pytest.mark.parametrize(
    ("package", "source"),
    [
        (
            "httpx2",
            'poll import Poll; source = Poll("http://127.0.0.1:9/orders", id="id", at="at", unit="s")',
        ),
        (
            "websockets",
            'websocket import Websocket; source = Websocket("ws://127.0.0.1:9/", lambda message: [])',
        ),
    ],
)
def test_a_source_without_its_package_ends_the_worker_and_names_the_extra(
    package: str, source: str, here: Path, without: Without
):
    shop = SHOP.replace('"orders": orders', '"orders": source')
    (here / "shop.py").write_text(f"from onefold.sources.{source}\n{shop}")

    code, message = without([package], "command('run', 'shop.py:pipeline', '--store', 'sqlite:///shop.db')")

    assert code == 2
    assert package in message
    assert 'pip install "onefold[worker]"' in message


def test_the_random_test_of_a_store_names_the_extra(without: Without):
    imports = "raised(lambda: importlib.import_module('onefold.testing.model'))"

    kind, message = without(["hypothesis"], imports)

    assert kind == "Misconfigured"
    assert 'pip install "onefold[testing]"' in message
