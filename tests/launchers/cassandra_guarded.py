"""A Cassandra that wants a password, and one that also loses what is young, forbids much and is called full.

Each setting is one that somebody may have chosen. What others may not do, the superuser of its URL may.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.launchers.cassandra import Cassandra, Current
from tests.launchers.fixtures import excuse
from tests.launchers.server import Command, Missing, Server, in_memory, running

SUPERUSER = "cassandra"
TOMBSTONES = 400
"""The number at which reads fail."""

LOCKED = """
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
permissions_validity: 0ms
roles_validity: 0ms
"""
GUARDED = f"""
commitlog_sync: periodic
commitlog_sync_period: 10s
tombstone_warn_threshold: {TOMBSTONES // 2}
tombstone_failure_threshold: {TOMBSTONES}
data_disk_usage_max_disk_size: 1MiB
data_disk_usage_percentage_warn_threshold: 1
data_disk_usage_percentage_fail_threshold: 2
"""


@dataclass(frozen=True)
class Chosen:
    """The current release, with settings of somebody's choice."""

    program: Current
    origin: str
    settings: str

    def prepare(self, folder: Path) -> None:
        self.program.prepare(folder)

    def command(self, folder: Path, port: int) -> Command:
        command = self.program.command(folder, port)
        settings = folder / "cassandra.yaml"
        given = settings.read_text()
        if "commitlog_sync:" in self.settings:
            given = re.sub(r"^commitlog_sync: .*\n", "", given, flags=re.MULTILINE)
        settings.write_text(given + self.settings)
        java, *rest = command.args
        soon = ["-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.disk_usage.monitor_interval_ms=100"]
        return replace(command, args=[java, *soon, *rest])


class LockedCassandra(Cassandra):
    name = "locked_cassandra"
    settings = LOCKED

    def locate(self) -> Chosen:  # type: ignore[override]
        found = super().locate()
        if not isinstance(found, Current):
            raise Missing("Cassandra 2.1 has no such settings")
        return Chosen(found, found.origin, self.settings)

    def url(self, port: int) -> str:
        return super().url(port).replace("://", f"://{SUPERUSER}:{SUPERUSER}@")


class GuardedCassandra(LockedCassandra):
    name = "guarded_cassandra"
    settings = LOCKED + GUARDED


@pytest.fixture(scope="session")
def guarded_cassandra() -> Iterator[Server]:
    """A server that is not to be trusted, for the length of a run."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(GuardedCassandra(), in_memory()))
        except Missing as missing:
            excuse(f"cassandra: {missing}")
        yield server


def as_user(url: str, login: str) -> str:
    """Change who asks: `name:password`, or nobody."""
    parts = urlsplit(url)
    joint = "@" if login else ""
    return parts._replace(netloc=f"{login}{joint}{parts.hostname}:{parts.port}").geturl()
