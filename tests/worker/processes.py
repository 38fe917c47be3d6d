"""Real workers over a feed that goes on, and a far side that counts: for tests that kill and stop them.

It asserts nothing. What happened is read from the journals of the world, never from Onefold.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from onefold.worlds.feed import Feed
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.site import Request, Response, Site
from tests.waiting import PATIENCE

AHEAD = 300
"""How many events may wait for their effects."""

PIPELINE = """
import urllib.request
from onefold import Pipeline, Terms
from onefold.sinks.function import Function
from onefold.sources.poll import Offset, Poll

def send(record):
    request = urllib.request.Request("{url}/effects", record.id.encode())
    urllib.request.urlopen(request, timeout={patience}).close()

{act}

pipeline = Pipeline(
    "{name}",
    sources={{"feed": Poll("{url}/trades", id="id", paging=Offset(25), unit=None, **{poll})}},
    key=lambda record: record.id,
    sink=Function(act, effect="{effect}"),
    terms=Terms(**{terms}),
    **{more},
)
"""


def pipeline_text(
    world: World,
    name: str,
    effect: str,
    *,
    poll: Mapping[str, Any],
    terms: Mapping[str, Any],
    act: str = "act = send",
    **more: Any,
) -> str:
    """Give the text of a pipeline from a world's feed to its far side; `act` may do more than `send`."""
    return PIPELINE.format(
        url=world.site.url,
        patience=PATIENCE,
        name=name,
        effect=effect,
        poll=poll,
        terms=terms,
        act=act,
        more=more,
    )


class World:
    """A feed that goes on, and a far side that counts."""

    def __init__(self, seed: int = 4, rates: dict[Trick, float] | None = None) -> None:
        self.journal = Journal()
        self.feed = Feed(page=25, journal=Journal())
        self.site = Site(
            {**self.feed.routes, ("POST", "/effects"): self._act},
            Mischief(seed, {"stall": 0.2, "error": 0.02} if rates is None else rates, 0.1),
        )
        self._number = self._acts = 0

    def _act(self, request: Request) -> Response:
        self._acts += 1
        self.journal.note("effect", id=request.body.decode())
        return Response({"ok": True})

    def happen(self) -> None:
        """Let another event happen, unless the workers are far behind: such tests are about their ends."""
        if self._number > self._acts + AHEAD:
            return
        self._number += 1
        self.feed.add({"id": f"e{self._number}", "timestamp": 1000 + self._number // 3})

    @property
    def events(self) -> dict[str, int]:
        return {line["id"]: line["at"] for line in self.feed.journal.of("exists")}

    @property
    def effects(self) -> Counter[str]:
        return Counter(line["id"] for line in self.journal.of("effect"))

    @property
    def acts(self) -> int:
        """How many effects happened."""
        return self._acts


class Workers:
    """Workers as processes, on the pipeline in `worked.py` of a folder; whoever ends may be followed."""

    def __init__(self, folder: Path, url: str, *words: str) -> None:
        self._folder = folder
        self._words = (*words, "--store", url)
        self._living: list[subprocess.Popen[bytes]] = []
        self.kills = 0
        self.deaths: list[int] = []
        """The exit codes of those that ended by themselves."""

    def start(self) -> None:
        command = [sys.executable, "-m", "onefold", "run", "worked.py:pipeline", *self._words]
        with (self._folder / "log").open("ab") as log:
            self._living.append(subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log))

    def kill(self, which: int) -> None:
        self.kills += 1
        victim = self._living.pop(which)
        victim.kill()
        victim.wait()

    def follow_the_dead(self) -> None:
        """Start a worker for each that ended by itself."""
        for one in [one for one in self._living if one.poll() is not None]:
            self._living.remove(one)
            self.deaths.append(one.returncode)
            self.start()

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
