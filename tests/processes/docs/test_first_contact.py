"""A new user pastes the examples of README.md and docs/start.md, one by one, and each works as it is shown.

Each example runs in an empty folder, as a file and a process of its own, twice.
"""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from onefold import Ledger
from onefold.core.operate import page
from onefold.drive import Ports, run
from onefold.stores import connect
from tests.checkout import ROOT
from tests.fast.docs.pages import Block, blocks

FIRST = ["README.md", "docs/start.md"]
PARKS = "# orders.py\nfrom onefold import Busy"
"""The example that shows a parked key begins like this."""


def examples() -> list[tuple[str, Block]]:
    return [
        (f"{name}:{block.line}", block)
        for name in FIRST
        for block in blocks((ROOT / name).read_text("utf-8"))
        if block.language == "python"
    ]


def parked(folder: Path) -> list[str]:
    """Name the parked keys of every ledger that an example left in a folder."""
    found: list[str] = []
    for name in ("onefold.db", "shop.db"):
        if (folder / name).exists():
            with closing(connect(f"sqlite:///{folder / name}", create=False)) as store:
                entries, _ = run(page(None, ["parked"], None), Ports(store))
            found += [f"{key.scope}/{key.label}" for key, _ in entries]
    return found


@pytest.mark.parametrize("block", [pytest.param(block, id=place) for place, block in examples()])
def test_an_example_works_as_pasted_and_again(tmp_path: Path, block: Block):
    (tmp_path / "example.py").write_text(block.text)
    env = {name: value for name, value in os.environ.items() if name != "ONEFOLD_STORE"}

    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-W", "error", "example.py"],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr

    assert parked(tmp_path) == (["orders/A-18"] if block.text.startswith(PARKS) else [])


def test_a_key_that_an_example_parks_would_be_found(tmp_path: Path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'shop.db'}")
    with pytest.raises(TimeoutError):
        ledger.protect("orders", key=lambda order: order)(_times_out)("A-17")
    ledger.close()

    assert parked(tmp_path) == ["orders/A-17"]


def _times_out(order: str) -> None:
    raise TimeoutError
