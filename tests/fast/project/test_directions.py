"""Imports point one way: `core <- drive <- ledger, stores, worker <- apps, cli, console`.

The rules are functions from imports to complaints. Each is held against the package, and against a planted
violation that proves it can fail.
"""

import sys
from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.fast.project.imports import Import, imports
from tests.stores_tested import STORES

SOURCE = ROOT / "src"

# Which parts of the package a part may import beside itself; "onefold" is the front, __init__.py.
MAY_IMPORT: dict[str, set[str]] = {
    "version": set(),
    "core": set(),
    "runtime": {"core"},
    "drive": {"core", "runtime"},
    "stores": {"core", "drive", "runtime"},
    "tables": {"core", "runtime"},
    "sources": {"core", "drive", "runtime", "tables"},
    "sinks": {"core", "drive", "runtime", "tables"},
    "ledger": {"core", "drive", "runtime", "stores"},
    "worker": {"core", "drive", "ledger", "runtime", "stores", "sources", "sinks"},
    "onefold": {"core", "drive", "ledger", "runtime", "stores", "sources", "sinks", "worker", "version"},
    "apps": {"onefold", "core", "drive", "ledger", "runtime", "sources", "sinks", "tables", "worker"},
    "console": {"onefold", "core", "drive", "ledger", "runtime", "stores", "worker", "version"},
    "cli": {
        "onefold",
        "core",
        "drive",
        "ledger",
        "runtime",
        "stores",
        "sources",
        "sinks",
        "worker",
        "apps",
        "console",
        "version",
    },
    "__main__": {"cli"},
    "testing": {
        "onefold",
        "core",
        "drive",
        "ledger",
        "runtime",
        "stores",
        "sources",
        "sinks",
        "worker",
        "apps",
    },
    "worlds": {"core", "runtime", "testing"},
}

# What core may import: nothing that waits, reads a clock, draws random numbers or asks the system. `msgspec`
# is the one third-party package, for values of which a batch makes thousands (docs/decisions/0014).
PURE = {
    "__future__", "bisect", "collections", "contextlib", "dataclasses", "datetime", "enum", "functools",
    "hashlib", "heapq", "ipaddress", "itertools", "json", "math", "msgspec", "operator", "re", "shlex",
    "types", "typing", "urllib.parse", "uuid", "zoneinfo",
}  # fmt: skip

# Packages that several files may share, by the parts that may; every other one belongs to one adapter.
SHARED: dict[str, set[str]] = {
    "msgspec": MAY_IMPORT.keys() - {"version"},
    "anyio": MAY_IMPORT.keys() - {"core", "version", "apps"},
    "click": {"cli"},
    "rich": {"cli"},
}

# Packages that more than one adapter needs, by the adapters that may; each keeps them to one file.
BESIDE: dict[str, set[str]] = {
    "apsw": {"onefold.stores.sqlite", "onefold.tables.sqlite"},
    "psycopg": {"onefold.stores.postgresql", "onefold.tables.postgresql"},
    "pymysql": {"onefold.stores.mariadb", "onefold.tables.mariadb"},
}

NOT_PRODUCTION = {"testing", "worlds"}
Complaints = list[str]


def part(module: str) -> str:
    """Name the part of the package that a module of ours belongs to."""
    return module.split(".")[1] if "." in module else module


def wrong_directions(found: Iterable[Import]) -> Complaints:
    return [str(each) for each in found if each.is_ours and not is_allowed(each)]


def is_allowed(each: Import) -> bool:
    here, there = part(each.importer), part(each.imported)
    # The demo shows the applications against stand-ins of the outside; it alone may, and only when called.
    if there in NOT_PRODUCTION and each.importer == "onefold.cli.demo":
        return each.lazy
    return here == there or there in MAY_IMPORT.get(here, ())


def unknown_parts(found: Iterable[Import]) -> Complaints:
    strangers = {each.importer for each in found if part(each.importer) not in MAY_IMPORT}
    return [f"{stranger} has no row in the table of directions" for stranger in sorted(strangers)]


def impure_core(found: Iterable[Import]) -> Complaints:
    return [
        str(each)
        for each in found
        if part(each.importer) == "core" and not each.is_ours and not {each.top, each.imported} & PURE
    ]


def stores_that_know_each_other(found: Iterable[Import]) -> Complaints:
    names = {f"onefold.stores.{store}" for store in STORES}
    return [
        str(each)
        for each in found
        if (store := store_of(each.imported, names))
        and store_of(each.importer, names) != store
        and part(each.importer) == "stores"
        and not (each.importer == "onefold.stores" and each.lazy)
    ]


def store_of(module: str, names: set[str]) -> str | None:
    return next((name for name in names if f"{module}.".startswith(f"{name}.")), None)


def scattered_clients(found: Iterable[Import]) -> Complaints:
    """Name third-party packages that production code imports in a second place, or in a part that may not."""
    owners: dict[str, str] = {}
    complaints = []
    for each in found:
        if each.is_ours or each.top in sys.stdlib_module_names or part(each.importer) in NOT_PRODUCTION:
            continue
        if each.top in SHARED:
            allowed = part(each.importer) in SHARED[each.top]
        elif each.top in BESIDE:
            allowed = adapter(each.importer) in BESIDE[each.top]
        else:
            allowed = owners.setdefault(each.top, adapter(each.importer)) == adapter(each.importer)
        if not allowed:
            complaints.append(str(each))
    return complaints


def adapter(module: str) -> str:
    """Name what owns a client: a file, or the folder of one backend, as in `onefold.stores.sqlite`."""
    return ".".join(module.split(".")[:3])


def needs_proof(found: Iterable[Import]) -> Complaints:
    """Name imports of `proof`, which stands beside the package and is not in the wheel."""
    return [str(each) for each in found if each.top == "proof"]


def cycles(found: Iterable[Import]) -> Complaints:
    graph: dict[str, set[str]] = {}
    for each in found:
        if each.is_ours and each.at_import_time and each.imported != each.importer:
            graph.setdefault(each.importer, set()).add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        return [" <- ".join(cycle.args[1])]
    return []


RULES = [
    wrong_directions, unknown_parts, impure_core, stores_that_know_each_other, scattered_clients, needs_proof,
    cycles,
]  # fmt: skip


@pytest.fixture(scope="module")
def package() -> list[Import]:
    """Who imports whom in the package itself; read once, because that takes seconds."""
    return imports(SOURCE)


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: Callable[[Iterable[Import]], Complaints], package: list[Import]):
    assert rule(package) == []


def test_the_package_is_being_read(package: list[Import]):
    assert any(each.imported.startswith("onefold.core.") for each in package)


# Can the rules fail? Each file below breaks one, or stays just within it.


def planted(folder: Path, files: dict[str, str]) -> list[Import]:
    for name, text in files.items():
        path = folder / "onefold" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return imports(folder)


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (wrong_directions, "core/key.py", "from onefold.drive import run"),
        (wrong_directions, "core/key.py", "from ..drive import run"),
        (wrong_directions, "core/key.py", "from onefold import Ledger"),
        (wrong_directions, "core/key.py", "def late():\n    import onefold.stores.memory"),
        (wrong_directions, "core/key.py", "if TYPE_CHECKING:\n    from onefold.ledger import Ledger"),
        (wrong_directions, "stores/redis.py", "from onefold.sources.poll import Poll"),
        (wrong_directions, "sinks/chat.py", "from onefold.stores import connect"),
        (wrong_directions, "worker/health.py", "from onefold.cli import main"),
        (wrong_directions, "apps/whales.py", "from onefold.stores.redis import Redis"),
        (wrong_directions, "ledger.py", "from onefold.testing import Flaky"),
        (wrong_directions, "apps/whales.py", "import onefold.worlds.chain"),
        (wrong_directions, "cli/demo.py", "from onefold.worlds import chain"),
        (wrong_directions, "cli/run.py", "def late():\n    from onefold.worlds import chain"),
        (unknown_parts, "newcomer.py", "import re"),
        (impure_core, "core/key.py", "import time"),
        (impure_core, "core/key.py", "def late():\n    from asyncio import sleep"),
        (impure_core, "core/key.py", "import os.path"),
        (impure_core, "core/key.py", "from urllib.request import urlopen"),
        (impure_core, "core/key.py", "import anyio"),
        (stores_that_know_each_other, "stores/redis.py", "from onefold.stores.memory import Memory"),
        (stores_that_know_each_other, "stores/redis.py", "from . import memory"),
        (stores_that_know_each_other, "stores/redis/script.py", "from ..memory import Memory"),
        (stores_that_know_each_other, "stores/__init__.py", "from onefold.stores.memory import Memory"),
        (stores_that_know_each_other, "stores/sql.py", "def late():\n    import onefold.stores.sqlite"),
        (scattered_clients, "ledger.py", "import apsw"),
        (scattered_clients, "stores/redis.py", "import apsw"),
        (scattered_clients, "sinks/table.py", "import apsw"),
        (wrong_directions, "tables/sqlite.py", "from onefold.stores import connect"),
        (scattered_clients, "worker/health.py", "from rich.table import Table"),
        (scattered_clients, "sources/poll.py", "import httpx2"),
        (needs_proof, "testing/torture/kills.py", "from proof.sim import planting"),
        (needs_proof, "worlds/demo/frame.py", "def late():\n    import proof"),
        (cycles, "core/other.py", "from onefold.core.third import x"),
        (cycles, "core/__init__.py", "from onefold.core.other import x\nfrom onefold.core.third import y"),
    ],
)
def test_a_planted_violation_is_found(rule, name, text, tmp_path):
    around = {
        "stores/memory.py": "",
        "stores/sqlite.py": "import apsw",
        "runtime/http.py": "import httpx2",
        "worlds/chain.py": "",
        "core/third.py": "from onefold.core.other import x\nfrom onefold.core import y",
    }

    complaints = rule(planted(tmp_path, around | {name: text}))

    assert len(complaints) == 1, complaints


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/key.py", "from collections.abc import Sequence\nfrom onefold.core import entry"),
        ("stores/__init__.py", "def connect():\n    from onefold.stores.memory import Memory"),
        ("stores/redis/__init__.py", "from onefold.stores.redis.script import CLAIM"),
        ("stores/redis.py", "import redis\nimport msgspec\nfrom onefold.core.key import Key"),
        (
            "cli/demo.py",
            "def demo():\n    from onefold.worlds import chain\n    from onefold.testing import crash",
        ),
        ("core/entry.py", "if TYPE_CHECKING:\n    from onefold.core.key import Key"),
        ("__init__.py", "from onefold.ledger import Ledger\nfrom onefold.version import __version__"),
        ("testing/contracts.py", "import pytest\nimport apsw"),
        ("stores/sqlite/joined.py", "import apsw"),
        ("tables/sqlite.py", "import apsw\nfrom onefold.core.key import Key"),
        ("runtime/http.py", "import httpx2"),
    ],
)
def test_what_is_allowed_raises_no_complaint(name, text, tmp_path):
    around = {
        "core/key.py": "from onefold.core.entry import Entry",
        "core/entry.py": "",
        "stores/memory.py": "",
        "stores/sqlite.py": "import apsw",
        "stores/redis/script.py": "",
        "version.py": "",
    }
    if name == "core/key.py":
        around["core/entry.py"] = "import enum"

    found = planted(tmp_path, around | {name: text})

    assert [complaint for rule in RULES for complaint in rule(found)] == []
