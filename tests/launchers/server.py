"""One life for every server: start on a free loopback port, be ready, stop, be killed, start again.

What differs between servers is a `Recipe`; this module knows processes, ports, folders and waiting. Ready
means that the server answered a question in its own protocol. It must not sleep for a fixed time, signal
processes by name, or know any one server.
"""

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.launchers import orphans

__all__ = ["Command", "Given", "Launched", "Missing", "NotReady", "Program", "Recipe", "Server", "running"]

# Below the range from which the system serves outgoing connections: nobody takes the port of a killed server.
PORTS = range(20_000, 32_000)
PATIENCE = 90.0
AFTER_A_KILL = 20.0
MEMORY = Path("/dev/shm")
ROOM = 6 * 2**30
"""Bytes that must be free there: for every server at the same time, and some of them twice."""


class Missing(Exception):
    """The server cannot be had on this machine; the text says why and what would help."""


class NotReady(Exception):
    """The server was started and ended, or did not answer in time; the text holds the end of its log."""


@dataclass(frozen=True)
class Command:
    """How a server is started in the foreground, as whom, and the signal that asks it to end in order."""

    args: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    farewell: signal.Signals = signal.SIGTERM


class Program(Protocol):
    """The parts of a server, found on this machine."""

    @property
    def origin(self) -> str:
        """Where the parts come from, for people."""

    def prepare(self, folder: Path) -> None:
        """Make a new, empty data folder ready; called once per folder."""

    def command(self, folder: Path, port: int) -> Command:
        """Say how to start on this folder and port."""


class Recipe(Protocol):
    """What is particular to one kind of server."""

    @property
    def name(self) -> str: ...

    def locate(self) -> Program:
        """Find the parts, or install them where that is allowed; `Missing` says why not."""

    def url(self, port: int) -> str:
        """Give the URL of a server on this loopback port."""

    def ping(self, url: str) -> str:
        """Ask the server for its version, in its own protocol; any error means that it is not ready."""

    def place(self, url: str) -> AbstractContextManager[str]:
        """Give the URL of something empty inside the server, and remove it afterwards."""


class Server(Protocol):
    """What a test may do with a server."""

    name: str
    url: str
    version: str
    origin: str

    def start(self) -> None: ...
    def stop(self) -> None:
        """End it in order."""

    def kill(self) -> None:
        """End it as a crash would: SIGKILL, with its children."""

    def restart(self) -> None:
        """Start it on the same folder and port, whether it was stopped, killed or still runs."""

    def place(self) -> AbstractContextManager[str]:
        """Lend a fresh database, keyspace or table by its URL."""

    def close(self) -> None:
        """End it and remove its folder."""


class Launched:
    """A server that this process starts, on a folder that nobody else has."""

    def __init__(
        self, recipe: Recipe, program: Program, patience: float = PATIENCE, home: Path | None = None
    ) -> None:
        self.name = recipe.name
        self.origin = program.origin
        self.version = ""
        self.ready_in = 0.0
        """Seconds from the start of the process to its first answer, when it was last started."""
        self.port = free_port()
        self.url = recipe.url(self.port)
        self.folder = Path(tempfile.mkdtemp(prefix=f"onefold-{recipe.name}-", dir=home))
        self._recipe = recipe
        self._program = program
        self._patience = patience
        self._prepared = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        if not self._prepared:
            self._program.prepare(self.folder)
            self._prepared = True
        self._launch()

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(self._program.command(self.folder, self.port).farewell)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=self._patience)
            self.kill()

    def kill(self) -> None:
        if process := self._process:
            # Once it was waited for, its number may be somebody else's.
            if process.poll() is None:
                kill_family(process.pid)
            process.wait()
            self._process = None
            orphans.forget(process.pid)

    def restart(self) -> None:
        self.stop()
        deadline = time.monotonic() + AFTER_A_KILL
        while True:
            try:
                return self.start()
            except NotReady:
                # What a killed one leaves (memory it shared, a lock on the folder) goes away a moment later.
                if time.monotonic() > deadline:
                    raise

    def place(self) -> AbstractContextManager[str]:
        return self._recipe.place(self.url)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> None:
        command = self._program.command(self.folder, self.port)
        began = time.monotonic()
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(arg) for arg in command.args],
                env={**os.environ, **command.env},
                cwd=self.folder,
                **identity(command.user),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        orphans.watch(self._process.pid, self.folder)
        try:
            self.version = self._first_answer(self._process)
        except BaseException:
            self.kill()
            raise
        self.ready_in = time.monotonic() - began

    def _first_answer(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                version = self._recipe.ping(self.url)
            except Exception as error:  # every client has errors of its own
                unready = error
            else:
                # If it ended, somebody else answered on its port.
                if process.poll() is None:
                    return version
            if ends_within(process, seconds=0.02):
                raise self._not_ready(f"ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise self._not_ready(f"did not answer within {self._patience:.0f} s ({unready})")

    def _not_ready(self, what: str) -> NotReady:
        log = (self.folder / "log").read_text("utf-8", "replace")
        tail = "\n".join("  " + line for line in log.splitlines()[-15:])
        return NotReady(f"{self.name} {what}. Its log ends:\n{tail}")


class Given:
    """A server that somebody else runs: it is used, and neither started nor ended."""

    def __init__(self, recipe: Recipe, url: str) -> None:
        self.name = recipe.name
        self.url = url
        self.version = ""
        self.origin = variable(recipe)
        self.ready_in = 0.0
        self._recipe = recipe

    def start(self) -> None:
        began = time.monotonic()
        try:
            self.version = self._recipe.ping(self.url)
        except Exception as error:  # every client has errors of its own
            raise NotReady(f"the server that {self.origin} names does not answer: {error}") from error
        self.ready_in = time.monotonic() - began

    def stop(self) -> None: ...

    def kill(self) -> None:
        raise Missing(f"{self.name} is given by {self.origin}, and only servers started here are killed")

    restart = kill

    def place(self) -> AbstractContextManager[str]:
        return self._recipe.place(self.url)

    def close(self) -> None: ...


def variable(recipe: Recipe) -> str:
    return f"{recipe.name.upper()}_URL"


def server(recipe: Recipe, home: Path | None = None) -> Given | Launched:
    """Give the server that the environment names, or one of our own, not yet started."""
    url = os.environ.get(variable(recipe))
    return Given(recipe, url) if url else Launched(recipe, recipe.locate(), home=home)


def in_memory() -> Path | None:
    """Return a place for the data of servers that is in the memory of this machine, if it has room for them.

    For tests only, which kill processes and never the machine: nothing is lost there, and syncing is quick.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY if has_room and os.access(MEMORY, os.W_OK) else None


@contextmanager
def running(recipe: Recipe, home: Path | None = None) -> Iterator[Given | Launched]:
    """Have a server for the length of a with-block; `home` is where its data lies instead of on the disk."""
    lent = server(recipe, home)
    try:
        lent.start()
        yield lent
    finally:
        lent.close()


def identity(user: str | None) -> dict[str, Any]:
    """Give the arguments of subprocess that make a child somebody else, with none of our groups."""
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


def free_port() -> int:
    # Tests may have seeded the common generator, and two processes must not try the same ports in step.
    chance = random.SystemRandom()
    for _ in range(100):
        port = chance.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise Missing(f"no free port was found from {PORTS.start} to {PORTS.stop - 1}")


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_family(pid: int) -> None:
    """Kill a process and its children; PostgreSQL's leave the process group, and would live on."""
    # Stopped first, so that it has no more children while they are counted.
    os.kill(pid, signal.SIGSTOP)
    for each in (pid, *children(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def children(pid: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
        return [int(word) for word in listed.stdout.split()]
    return [int(each.name) for each in Path("/proc").glob("[0-9]*") if parent(each) == pid]


def parent(process: Path) -> int | None:
    try:
        # The name of the program comes second, in brackets, and may hold spaces and brackets.
        return int((process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except OSError:
        return None
