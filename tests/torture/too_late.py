"""The torture, on a machine that is so busy that every random kill comes after its worker has ended."""

import os
import sys
from collections.abc import Callable

from onefold.testing.torture import kills
from onefold.testing.torture.__main__ import main
from onefold.testing.torture.children import LIFETIME, Child, Children, Report


class Slowly(Children):
    """Comes back from a fork only after the worker has ended."""

    def start(self, body: Callable[[Report], None], lifetime: int = LIFETIME) -> Child:
        child = super().start(body, lifetime)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return child


vars(kills)["Children"] = Slowly

if __name__ == "__main__":
    sys.exit(main())
