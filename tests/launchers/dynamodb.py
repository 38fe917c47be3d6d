"""DynamoDB: AWS's own DynamoDB Local, from the npm package `amplify-dynamodb-simulator`, on Java.

AWS allows its use for development and tests and not its distribution, so it is fetched and never committed.
Items are in a file and survive a kill. Telemetry is off.
"""

import functools
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.launchers import parts
from tests.launchers.java import QUICK, java
from tests.launchers.server import Command

SIMULATOR = parts.Tarball(
    "amplify-dynamodb-simulator",
    "2.9.30",
    "xTeeRLvzEfqyd5lh3bH4c0kHvSHHmmhD5ZDsHFKAQ5g2Zl6JqlFdutaQhCLHzxEp6Ry1o7TB6niIoXuQAnSewQ==",
)
LAUNCHER = Path(__file__).with_name("DynamoDBOnLoopback.java")
CLASSES = "DynamoDBLocal.jar:DynamoDBLocal_lib/*"


@dataclass(frozen=True)
class Installed:
    """The unpacked jars, with our launcher compiled beside them."""

    java: str
    home: Path
    origin: str

    def prepare(self, folder: Path) -> None:
        (folder / "data").mkdir()

    def command(self, folder: Path, port: int) -> Command:
        jvm = ["-Xmx192m", *QUICK, f"-Djava.library.path={self.home / 'DynamoDBLocal_lib'}"]
        path = f"{self.home}:{self.home}/DynamoDBLocal.jar:{self.home}/DynamoDBLocal_lib/*"
        how = ["-port", str(port), "-dbPath", str(folder / "data"), "-sharedDb", "-disableTelemetry"]
        return Command([self.java, *jvm, "-cp", path, LAUNCHER.stem, *how])


class Dynamodb:
    name = "dynamodb"

    def __init__(self) -> None:
        self._release = "of unknown version"

    def locate(self) -> Installed:
        runner = java()
        home = parts.part(f"dynamodb-local-{SIMULATOR.version}", install)
        # DynamoDB Local takes any letters and digits, but clients insist on having some credentials.
        for variable in "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
            os.environ.setdefault(variable, "onlyfortests")
        self._release = release(home)
        return Installed(runner, home, SIMULATOR.origin)

    def url(self, port: int) -> str:
        return f"dynamodb://us-east-1/onefold?endpoint={quote(f'http://127.0.0.1:{port}', safe='')}"

    def ping(self, url: str) -> str:
        answer = client(url).list_tables(Limit=1)
        # Only the local one is built on Jetty; neither tells its version.
        by = answer["ResponseMetadata"]["HTTPHeaders"].get("server", "")
        return f"Local {self._release}" if by.startswith("Jetty") else f"DynamoDB ({by})"

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        """Lend the name of a table that is not there yet: making it is the store's affair."""
        name = f"onefold-{uuid.uuid4().hex}"
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        made = client(url)
        if name in tables(made):
            made.delete_table(TableName=name)


def install(folder: Path) -> None:
    compiler = java("javac")
    SIMULATOR.unpack("emulator", folder / "emulator")
    for each in (folder / "emulator").iterdir():
        each.rename(folder / each.name)
    parts.run([compiler, "-cp", CLASSES, "-d", ".", LAUNCHER], folder)


def release(home: Path) -> str:
    """Read the version off the release notes; the server does not tell it."""
    found = re.search(r"\((\d+\.\d+\.\d+)\)", (home / "README.txt").read_text("utf-8", "replace"))
    return found[1] if found else "of unknown version"


@functools.cache
def client(url: str) -> Any:
    import boto3
    from botocore.config import Config

    parts_of = urlsplit(url)
    (endpoint,) = parse_qs(parts_of.query).get("endpoint", [None])
    config = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 1})
    return boto3.client("dynamodb", region_name=parts_of.hostname, endpoint_url=endpoint, config=config)


def tables(made: Any) -> set[str]:
    return {name for page in made.get_paginator("list_tables").paginate() for name in page["TableNames"]}
