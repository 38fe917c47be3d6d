"""Runs a torture beside the server that its store needs; it is `./dev torture`.

The torture itself ships and knows nothing of how servers are started: it is told where one is, and by which
command it is killed and comes back. That command talks to this process, which holds the server.
"""

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tests.launchers.recipes import RECIPES
from tests.launchers.server import Missing, NotReady, Server, running

TORTURE = [sys.executable, "-m", "onefold.testing.torture"]
ASK = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r}); exit(s.recv(4) != b'back')"


def main(args: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--url")
    parser.add_argument("--server-kills", default="0")
    known, _ = parser.parse_known_args(args)
    if known.store not in RECIPES or known.url or {"-h", "--help"} & set(args):
        return beside([*TORTURE, *args], {})
    try:
        with running(RECIPES[known.store]) as server, restarted(server) as command:
            killed = known.server_kills != "0" or "durability" in args
            restart = ["--restart", command] if killed else []
            return beside([*TORTURE, *args, *restart], {f"{known.store.upper()}_URL": server.url})
    except (Missing, NotReady) as error:
        print(f"torture: {known.store}: {error}", file=sys.stderr)
        return 2


def beside(command: Sequence[str], urls: dict[str, str]) -> int:
    """Run the torture; whoever ends this process ends the torture first, and then the server."""
    signal.signal(signal.SIGTERM, stop)
    with subprocess.Popen(command, env={**os.environ, **urls}) as torture:
        try:
            return torture.wait()
        except BaseException:
            torture.terminate()
            raise


def stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def restarted(server: Server) -> Iterator[str]:
    """Give a command that kills the server and ends when it is back."""
    with (
        tempfile.TemporaryDirectory(prefix="onefold-restart-") as folder,
        socket.socket(socket.AF_UNIX) as door,
    ):
        path = str(Path(folder, "door"))
        door.bind(path)
        door.listen()
        threading.Thread(target=serve, args=(door, server), daemon=True).start()
        yield shlex.join([sys.executable, "-c", ASK.format(path)])


def serve(door: socket.socket, server: Server) -> None:
    """Restart the server for whoever knocks, until the door is closed."""
    with suppress(OSError):
        while True:
            knock, _ = door.accept()
            with knock:
                server.kill()
                server.restart()
                knock.sendall(b"back")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
