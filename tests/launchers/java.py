"""Finds a Java that is new enough; nothing here starts a server."""

import re
import shutil
import subprocess

from tests.launchers.server import Missing

__all__ = ["QUICK", "java"]

OLDEST = 17
QUICK = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""Start a virtual machine sooner; a server of tests does not live long enough to be optimised."""


def java(tool: str = "java") -> str:
    """Give the path of `java` or `javac`, or say what is missing."""
    found = shutil.which(tool)
    if not found:
        raise Missing(
            f"it needs {tool} {OLDEST} or newer, which is not on PATH (on Debian: default-jdk-headless)"
        )
    told = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+", told.stdout + told.stderr)
    if told.returncode or not version or int(version[0]) < OLDEST:
        raise Missing(f"it needs {tool} {OLDEST} or newer; {found} says {(told.stdout + told.stderr)[:60]!r}")
    return found
