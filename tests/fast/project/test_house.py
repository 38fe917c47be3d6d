"""The house rules that a machine can read: docstrings, names, a small front, no leftovers, clean locks.

Each rule is a function from text to complaints, held here against planted text that proves it can fail. The
files of the repository are listed by git, so `tests/processes/project/test_house_kept.py` holds the rules
against them.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkout import ROOT

PUBLIC_NAMES = 15
VAGUE_MODULES = {"base", "common", "helper", "helpers", "misc", "util", "utils"}
VAGUE_NAME = re.compile(r"(Manager|Helper|Util|Base|Impl)s?$|_(manager|helper|util|base|impl)s?$")
# Put together here, so that this file does not break its own rules.
LEFTOVER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(" + "|".join(("work", "root")) + r")/")
PROOF = re.compile(r"\bproof\.[a-z]|import proof\b")
PIN = re.compile(r"[a-z0-9-]+==[\w.!+]+( ; [\w .'=!<>()]+)?( \\)?")
HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?")

Complaints = list[str]
Rule = Callable[[str, str], Complaints]


def is_python(name: str) -> bool:
    return name.endswith(".py") or name == "dev"


def missing_docstring(name: str, text: str) -> Complaints:
    if not is_python(name) or not text.strip() or ast.get_docstring(ast.parse(text)):
        return []
    return [f"{name}: the module does not say what it is for"]


def vague_module(name: str, text: str) -> Complaints:
    parts = Path(name).with_suffix("").parts
    return [f"{name}: '{part}' says nothing" for part in parts if is_python(name) and part in VAGUE_MODULES]


def vague_names(name: str, text: str) -> Complaints:
    if not is_python(name) or not name.startswith(("src/", "proof/")):
        return []
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, named))
    return [
        f"{name}:{node.lineno}: {node.name} names no thing" for node in nodes if VAGUE_NAME.search(node.name)
    ]


def leftovers(name: str, text: str) -> Complaints:
    return lines_with(LEFTOVER, name, text)


def machine_paths(name: str, text: str) -> Complaints:
    return lines_with(MACHINE_PATH, name, text)


def names_proof(name: str, text: str) -> Complaints:
    """Name lines that start or import a module of `proof`, also as text of another process's command."""
    return lines_with(PROOF, name, text) if name.startswith("src/") else []


def lines_with(pattern: re.Pattern[str], name: str, text: str) -> Complaints:
    lines = enumerate(text.splitlines(), 1)
    return [f"{name}:{number}: {found[0]}" for number, line in lines if (found := pattern.search(line))]


def crowded_front(name: str, text: str) -> Complaints:
    if name != "src/onefold/__init__.py":
        return []
    names = public_names(text)
    if names is None:
        return [f"{name}: there is no __all__"]
    return [f"{name}: {len(names)} public names, at most {PUBLIC_NAMES}"] if len(names) > PUBLIC_NAMES else []


def public_names(text: str) -> list[str] | None:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets):
            return list(ast.literal_eval(node.value))
    return None


def unclean_lock(name: str, text: str) -> Complaints:
    """Name the lines of a lock that are no comment, exact version or hash: an index, a link, a path."""
    if not name.endswith(".lock"):
        return []
    lines = enumerate(text.splitlines(), 1)
    return [
        f"{name}:{number}: {line.strip()}"
        for number, line in lines
        if not (line.startswith("#") or PIN.fullmatch(line) or HASH.fullmatch(line))
    ]


RULES: list[Rule] = [
    missing_docstring, vague_module, vague_names, leftovers, machine_paths, names_proof, crowded_front,
    unclean_lock,
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (missing_docstring, "src/onefold/core/key.py", "import re\n"),
        (missing_docstring, "dev", "import re\n"),
        (vague_module, "src/onefold/utils.py", ""),
        (vague_module, "tests/common/test_it.py", ""),
        (vague_names, "src/onefold/ledger.py", "class LedgerManager: ..."),
        (vague_names, "src/onefold/ledger.py", "class Ledger:\n    class StoreBase: ..."),
        (vague_names, "src/onefold/ledger.py", "async def claim_helper(): ..."),
        (vague_names, "proof/sim/world.py", "class WorldManager: ..."),
        (leftovers, "docs/start.md", f"{'TO'}{'DO'}: write this"),
        (leftovers, "src/onefold/ledger.py", f"x = 1  # {'FIX'}{'ME'}"),
        (machine_paths, "README.md", f"cd {'/work'}/main"),
        (machine_paths, "pyproject.toml", f'path = "{"/root"}/.cache"'),
        (names_proof, "src/onefold/worlds/demo/frame.py", 'WORKER = ("-m", "proof.sim.planted_worker")'),
        (crowded_front, "src/onefold/__init__.py", "x = 1"),
        (crowded_front, "src/onefold/__init__.py", f"__all__ = {[f'n{i}' for i in range(16)]}"),
        (unclean_lock, "requirements/test.lock", "--index-url https://mirror.example.org/simple\n"),
        (unclean_lock, "requirements/test.lock", "apsw @ file:///wheels/apsw.whl\n"),
        (unclean_lock, "requirements/test.lock", "apsw>=3.54\n"),
        (unclean_lock, "requirements/test.lock", "    # via -r requirements/test.in\n"),
    ],
)
def test_a_planted_violation_is_found(rule: Rule, name: str, text: str):
    assert len(rule(name, text)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tests/fast/contracts/__init__.py", ""),
        ("src/onefold/stores/sqlite.py", '"""Keeps entries in a file."""\nclass Database: ...'),
        ("src/onefold/core/key.py", '"""A key is no proof. It is a name."""'),
        ("docs/start.md", "Make your own network/root/leaf; see docs/work/it.md."),
        ("src/onefold/__init__.py", f'"""The front."""\n__all__ = {[f"n{i}" for i in range(15)]}'),
        (
            "requirements/x.lock",
            "# by ./dev lock\na-b==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:" + "0f" * 32,
        ),
    ],
)
def test_what_is_allowed_raises_no_complaint(name: str, text: str):
    assert [complaint for rule in RULES for complaint in rule(name, text)] == []


def version() -> str:
    text = (ROOT / "src/onefold/version.py").read_text("utf-8")
    return str(ast.literal_eval(text.rpartition("=")[2].strip()))


def has_heading(changelog: str, version: str) -> bool:
    return any(line.startswith("## ") and version in line.split() for line in changelog.splitlines())


def test_the_changelog_has_a_heading_for_the_version():
    assert has_heading((ROOT / "CHANGELOG.md").read_text("utf-8"), version())


def test_a_changelog_without_the_version_is_found():
    assert not has_heading(
        "# Changes\n\n## Unreleased\n\n- mentions 0.1.0 only in passing\n\n## 0.1.01\n", "0.1.0"
    )


def pins(lock: str) -> set[str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text("utf-8")
    # The marker behind a version says on which machines it is needed; here only the version counts.
    return set(re.findall(r"^[a-z0-9-]+==[^ ]+", text, re.M))


def test_an_environment_for_the_tests_serves_the_demo_too():
    # ./dev relies on it: it does not install demo.lock where test.lock is in.
    assert pins("demo")
    assert pins("demo") <= pins("test")
