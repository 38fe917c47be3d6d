"""What a reader sees on README.md and the pages of docs/ passes strict type checks.

A block that begins with a comment like `# shop.py` is a file of its own, and so is every block of the first
pages. The other blocks of a page continue each other. Code that a page hides is left out: a name that is only
defined there is an error here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.fast.docs.pages import Block, visible_blocks
from tests.fast.docs.runner import NAMED

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIRST = {"README.md", "docs/start.md"}

Files = dict[str, str]


def files(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Give the Python files that a page shows, by name; lines keep the numbers that they have on the page."""
    name = page.removesuffix(".md").replace("/", "_").replace("-", "_")
    continued: list[str] = []
    for block in visible_blocks(text):
        if block.language != "python":
            continue
        named = NAMED.match(block.text)
        if page in FIRST:
            yield f"{name}_{block.line}.py", padded(block)
        elif named:
            yield named[1], padded(block)
        else:
            continued += [""] * (block.line - 1 - len(continued)) + block.text.splitlines()
    if continued:
        yield f"{name}.py", "\n".join(continued) + "\n"


def padded(block: Block) -> str:
    return "\n" * (block.line - 1) + block.text


def shown() -> Files:
    return {
        file: text
        for page in PAGES
        for file, text in files(str(page.relative_to(ROOT)), page.read_text("utf-8"))
    }


def checked(folder: Path, written: Files, *command: str) -> subprocess.CompletedProcess[str]:
    """Write files into a folder, and run a checker over them."""
    for name, text in written.items():
        (folder / name).write_text(text)
    # Otherwise the checkers would look for the settings of the user.
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\npython_version = 3.11\n")
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard", "pythonVersion": "3.11"}')
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


MYPY = ("mypy", "--config-file", "mypy.ini", ".")
PYRIGHT = ("basedpyright", "--project", "pyrightconfig.json", "--pythonpath", sys.executable)

with_pyright = pytest.mark.skipif(
    find_spec("basedpyright") is None, reason="pyright is not installed: ./dev types --pyright installs it"
)


def test_every_snippet_passes_mypy_strict(tmp_path: Path):
    written = shown()

    # A cache of its own makes the second run five times faster.
    ended = checked(tmp_path, written, *MYPY, "--cache-dir", str(ROOT / ".mypy_cache" / "snippets"))

    assert len(written) > 15
    assert ended.returncode == 0, ended.stdout + ended.stderr


WRONG = {
    "a_wrong_type.md": ("```python\nx: int = 'one'\n```\n", "a_wrong_type.py:2: error: Incompatible types"),
    "no_type.md": (
        "```python\ndef f(x):\n    pass\n```\n",
        "no_type.py:2: error: Function is missing a type annotation",
    ),
    "a_hidden_name.md": (
        "<!-- python\ny = 1\n-->\n\n```python\nprint(y)\n```\n",
        'a_hidden_name.py:6: error: Name "y" is not defined',
    ),
    "an_await_outside_of_a_function.md": (
        "```python\nimport asyncio\nawait asyncio.sleep(0)\n```\n",
        'an_await_outside_of_a_function.py:3: error: "await" outside',
    ),
    "another_file.md": (
        "```python\n# shop.py\nx = 1\n```\n\n```python\nimport shop\nshop.y\n```\n",
        'another_file.py:8: error: Module has no attribute "y"',
    ),
}
"""Pages with a mistake, and what is said of each."""


def test_a_snippet_that_is_wrong_would_be_found(tmp_path: Path):
    written = {file: shown for page, (text, _) in WRONG.items() for file, shown in files(page, text)}

    ended = checked(tmp_path, written, *MYPY)

    assert ended.returncode == 1
    for _, complaint in WRONG.values():
        assert complaint in ended.stdout
    assert f"Found {len(WRONG)} errors" in ended.stdout


@pytest.mark.slow
@with_pyright
def test_every_snippet_passes_pyright(tmp_path: Path):
    ended = checked(tmp_path, shown(), *PYRIGHT)

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
@with_pyright
def test_a_snippet_that_is_wrong_would_be_found_by_pyright(tmp_path: Path):
    ended = checked(tmp_path, dict(files("page.md", "```python\nx: int = 'one'\n```\n")), *PYRIGHT)

    assert ended.returncode == 1
    assert "page.py:2:10 - error" in ended.stdout
