"""MariaDB: the server of the system, or Debian's package unpacked into `.servers`; no registry has a wheel.

apt-get is asked with folders of our own: it needs no root, and nothing of the system is installed or changed.
Settings are durable: the log is flushed at every commit, which is the server's default.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.launchers import parts
from tests.launchers.server import Command, Missing, NotReady

USER, PASSWORD = "onefold", "only-for-tests"
PACKAGE = "mariadb-server-core"
# What mariadb-install-db feeds to a new server; the help texts are left out.
SCHEMA = "mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"
# While it is being made, a server takes one statement per line.
HEAD = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL, @skip_auth_anonymous='1';\n"
INIT = f"""CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;
"""


@dataclass(frozen=True)
class Installed:
    """A mariadbd, and the `usr` folder in which its files lie."""

    program: Path
    usr: Path
    origin: str

    def prepare(self, folder: Path) -> None:
        (folder / "data").mkdir()
        (folder / "init.sql").write_text(INIT)
        shared = self.usr / "share" / "mysql"
        schema = HEAD + "".join((shared / name).read_text("utf-8") for name in SCHEMA)
        made = subprocess.run(
            [*self._mariadbd(folder), "--bootstrap"],
            input=schema,
            env={**os.environ, **self._env()},
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise NotReady(f"mariadbd --bootstrap failed:\n{made.stderr[-2000:]}")

    def command(self, folder: Path, port: int) -> Command:
        where = ["--bind-address=127.0.0.1", f"--port={port}", f"--init-file={folder / 'init.sql'}"]
        how = ["--skip-name-resolve", "--character-set-server=utf8mb4", "--max-connections=300"]
        return Command([*self._mariadbd(folder), *where, *how], self._env())

    def _mariadbd(self, folder: Path) -> list[str]:
        files = [
            f"--datadir={folder / 'data'}",
            f"--socket={folder / 'socket'}",
            f"--pid-file={folder / 'pid'}",
            # A server that starts clears this folder of what it takes for its own: two must not share one.
            f"--tmpdir={folder / 'data'}",
        ]
        # The defaults would fill 120 MB of disk before the first row.
        small = ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=64M"]
        who = [] if os.geteuid() else ["--user=root"]
        return [str(self.program), "--no-defaults", f"--basedir={self.usr}", *who, *files, *small]

    def _env(self) -> dict[str, str]:
        libraries = [*self.usr.glob("lib/*-linux-*"), *self.usr.parent.glob("lib/*-linux-*")]
        return {} if self.usr == Path("/usr") else {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


class Mariadb:
    name = "mariadb"

    def locate(self) -> Installed:
        folders = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin"
        if found := shutil.which("mariadbd", path=folders):
            program = Path(found).resolve()
            return Installed(program, program.parents[1], found)
        usr = parts.part("mariadb", install) / "usr"
        return Installed(usr / "sbin" / "mariadbd", usr, f"apt {PACKAGE}")

    def url(self, port: int) -> str:
        return f"mariadb://{USER}:{PASSWORD}@127.0.0.1:{port}/mysql"

    def ping(self, url: str) -> str:
        with connected(url) as cursor:
            cursor.execute("SELECT version()")
            # What follows is the packager's: 10.11.19-MariaDB-0+deb12u1.
            return "-".join(str(cursor.fetchone()[0]).split("-")[:2])

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        name = f"onefold_{uuid.uuid4().hex}"
        with connected(url) as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        with connected(url) as cursor:
            # A test that leaves a transaction open is told so; it must not hang the run.
            cursor.execute("SET lock_wait_timeout = 10")
            cursor.execute(f"DROP DATABASE {name}")


def install(folder: Path) -> None:
    apt = parts.program("apt-get", "MariaDB, of which there is no wheel,")
    for name in "lists/partial", "archives/partial":
        (folder / "apt" / name).mkdir(parents=True)
    settings = {
        "Dir::State::Lists": folder / "apt" / "lists",
        "Dir::Cache": folder / "apt",
        "Dir::Cache::Archives": folder / "apt" / "archives",
        # The folders are ours alone, so there is nothing to lock and nobody to become.
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
    }
    ask = [apt, "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    parts.run([*ask, "update"], folder)
    parts.run([*ask, "install", "--yes", "--download-only", "--no-install-recommends", PACKAGE], folder)
    packages = list((folder / "apt" / "archives").glob("*.deb"))
    if not any(path.name.startswith(PACKAGE) for path in packages):
        raise Missing(f"apt-get did not fetch {PACKAGE}")
    for package in packages:
        parts.run([parts.program("dpkg-deb", "MariaDB"), "--extract", package, folder], folder)
    shutil.rmtree(folder / "apt")


@contextmanager
def connected(url: str) -> Iterator[Any]:
    import pymysql

    whole = urlsplit(url)
    with (
        pymysql.connect(
            host=whole.hostname,
            port=whole.port or 3306,
            user=whole.username,
            password=whole.password or "",
            database=whole.path.strip("/"),
            autocommit=True,
            connect_timeout=5,
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor
