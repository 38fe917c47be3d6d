"""Workers as real processes, between the feed and the far side of a world: for tests that kill and stop them.

It asserts nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.fast.worker.world import World
from tests.waiting import PATIENCE

PIPELINE = """
import urllib.request
from onefold import Pipeline, Terms
from onefold.sinks.function import Function
from onefold.sources.poll import Offset, Poll

def send(record):
    request = urllib.request.Request("{url}/effects", record.id.encode())
    urllib.request.urlopen(request, timeout={patience}).close()

pipeline = Pipeline(
    "{name}",
    sources={{"feed": Poll("{url}/trades", id="id", paging=Offset(25), unit=None, every=0.1, lag="30s")}},
    key=lambda record: record.id,
    sink=Function(send, effect="one-shot"),
    terms=Terms(**{terms}),
)
"""


class Workers:
    """Processes that run one pipeline, from the feed of a world to its far side, on one store."""

    def __init__(self, folder: Path, url: str, world: World, name: str, **terms: Any) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "onefold", "run", "worked.py:pipeline", "--store", url]
        self._living: list[subprocess.Popen[bytes]] = []
        text = PIPELINE.format(url=world.site.url, patience=PATIENCE, name=name, terms=terms)
        (folder / "worked.py").write_text(text)

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            started = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)
        self._living.append(started)

    def kill(self, which: int) -> None:
        victim = self._living.pop(which)
        victim.kill()
        victim.wait()

    def stop(self) -> list[int]:
        """Tell all to stop; return how they ended."""
        for one in self._living:
            one.terminate()
        codes = [one.wait(PATIENCE) for one in self._living]
        self._living.clear()
        return codes

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        for one in self._living:
            one.kill()
            one.wait()
