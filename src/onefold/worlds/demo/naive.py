"""The workers that people write without Onefold, as the seeds describe them, mistakes included.

One process runs the naive worker of every application in a thread each; the demo kills it as it kills
Onefold's. Each keeps its own cursor, its own table of what was processed, and its own idea of safety.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Naive = Callable[[dict[str, Any], Path], None]


def main(arguments: list[str]) -> None:
    """Run every naive worker that the file names, until killed."""
    folder = Path(arguments[0])
    known: dict[str, dict[str, Any]] = json.loads((folder / "naive.json").read_text())
    for name, facts in known.items():
        worker: Naive = import_module(f"onefold.worlds.demo.{name}").naive
        threading.Thread(target=_for_ever, args=(worker, facts, folder / name), daemon=True).start()
    while True:
        time.sleep(1)


def _for_ever(worker: Naive, facts: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    while True:
        try:
            worker(facts, folder)
        except Exception:  # "it will be fine at the next poll"
            time.sleep(0.2)


def remembered(folder: Path, name: str, default: Any) -> Any:
    """Read a small file of state, as such workers do."""
    try:
        return json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return default


def remember(folder: Path, name: str, value: Any) -> None:
    """Write it, in place."""
    (folder / name).write_text(json.dumps(value))


if __name__ == "__main__":
    main(sys.argv[1:])
