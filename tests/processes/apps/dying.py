"""Runs whales as the configuration in this folder says, and kills itself between a send and its mark.

python -m tests.processes.apps.dying STORE
"""

from __future__ import annotations

import os
import signal
import sys

from onefold.drive import Event
from onefold.worker import Worker
from onefold.worker.configuration import nearest
from onefold.worker.loading import chosen
from onefold.worker.settings import Live
from tests.fast.apps.lives import sent


def main(store: str) -> None:
    live = Live()
    worker = Worker(chosen(["whales"], nearest(), live), store=store, beside=[live.attend])

    def die(event: Event) -> None:
        if sent(event):
            os.kill(os.getpid(), signal.SIGKILL)

    worker.tap = die
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1])
