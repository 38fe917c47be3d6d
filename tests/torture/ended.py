"""A torture that was run as a command, and what it printed."""

import os
import re
import subprocess
import sys
from pathlib import Path


class Ended:
    """A run of the command: its exit code, all its lines, and the numbers of its closing line."""

    def __init__(
        self, folder: Path, *arguments: str, module: str = "onefold.testing.torture", **variables: str
    ) -> None:
        command = [sys.executable, "-m", module, *arguments]
        environment = {**os.environ, "TMPDIR": str(folder), **variables}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=550, env=environment)
        self.code = ran.returncode
        self.lines = ran.stdout.splitlines()
        self.errors = ran.stderr
        self.left = os.listdir(folder)

    def number(self, word: str) -> int:
        """Return the number beside a word of the closing line; without one, fail with the whole output."""
        closings = [line for line in self.lines if ": " in line and not line.startswith(" ")]
        assert len(closings) == 1, f"{len(closings)} closing lines, exit code {self.code}:\n{self.text}"
        [closing] = closings
        found = re.search(rf"\b{word} (\d+)", closing) or re.search(rf"(\d+) {word}\b", closing)
        assert found, f"no number beside {word!r} in the closing line:\n{self.text}"
        return int(found[1])

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, self.errors])
