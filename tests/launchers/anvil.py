"""Anvil: a chain node for tests, from npm, on one port for HTTP and WebSocket. It is no store.

It keeps its chain in memory and writes it to a file: in order at its end, and every second. So a kill takes
what was mined since the last writing, as a node may that crashes; `saved` says how far the file has come.
"""

import json
import platform
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.launchers import parts
from tests.launchers.server import Command, Missing

__all__ = ["Anvil", "ask", "saved"]

VERSION = "1.7.1"
CHAIN_ID = 137
NODES = {
    ("Linux", "x86_64"): parts.Tarball(
        "@foundry-rs/anvil-linux-amd64",
        VERSION,
        "+XmShybEaxfCrr0OUUZwYEy2OnYZt5pHH9TzBtLv3+VrK0O/ANuNSVEahqNhKHlgX7GRJ59383ofNhxkRWIYTg==",
    ),
}


@dataclass(frozen=True)
class Installed:
    """The unpacked program."""

    program: Path
    origin: str

    def prepare(self, folder: Path) -> None:
        """The node makes its own file."""

    def command(self, folder: Path, port: int) -> Command:
        # It caches beside the user's own files if it is let.
        return Command([self.program, *flags(folder, port)], {"HOME": str(folder)})


def flags(folder: Path, port: int) -> list[str]:
    place = ["--host", "127.0.0.1", "--port", str(port)]
    kept = ["--state", str(folder / "state.json"), "--state-interval", "1"]
    return [*place, *kept, "--chain-id", str(CHAIN_ID), "--silent"]


class Anvil:
    name = "anvil"

    def locate(self) -> Installed:
        machine = platform.system(), platform.machine()
        if machine not in NODES:
            raise Missing(f"of anvil's builds, none for {' '.join(machine)} has its hash recorded here")
        tarball = NODES[machine]
        home = parts.part(f"anvil-{VERSION}", lambda folder: tarball.unpack("bin", folder / "bin"))
        return Installed(home / "bin" / "anvil", tarball.origin)

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}"

    def ping(self, url: str) -> str:
        return str(ask(url, "web3_clientVersion")).removeprefix("anvil/v")

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        """Lend the chain as it stands, and set it back afterwards; one place at a time."""
        before = ask(url, "evm_snapshot")
        yield url
        ask(url, "evm_revert", before)


def ask(url: str, method: str, *params: Any) -> Any:
    """Ask a node one question by JSON-RPC; a refusal is a ValueError with its words."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        told = json.load(answer)
    if "error" in told:
        raise ValueError(f"{method} was refused: {told['error']}")
    return told["result"]


def saved(folder: Path) -> int:
    """Say up to which block the file in a node's folder has come; -1 while it cannot be read."""
    try:
        return int(json.loads((folder / "state.json").read_text())["best_block_number"])
    except (OSError, ValueError):
        return -1
