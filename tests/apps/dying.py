"""Runs whales as the configuration in this folder says, and kills itself at a point of the protocol.

python -m tests.apps.dying POINT: `marked` is after a message was written down as begun and before it leaves,
`sent` after it left and before that is written, `told` after everything is written but the cursor.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence

from onefold.core.entry import Change
from onefold.drive import Event
from onefold.worker import Worker
from onefold.worker.configuration import nearest
from onefold.worker.loading import chosen
from onefold.worker.settings import Live

Point = Callable[[Sequence[Change], bool], bool]


def marked(changes: Sequence[Change], after: bool) -> bool:
    return after and any(one.begin for one in changes)


def sent(changes: Sequence[Change], after: bool) -> bool:
    return not after and any(one.entry is not None and one.entry.state == "done" for one in changes)


def told(changes: Sequence[Change], after: bool) -> bool:
    """See the first write that would move a cursor; before that it only says how the source does."""
    texts = [one.entry.body for one in changes if one.entry and one.key.scope == "onefold.cursors"]
    return not after and any(json.loads(text or "{}").get("at") is not None for text in texts)


POINTS: dict[str, Point] = {"marked": marked, "sent": sent, "told": told}


def main(point: str, store: str) -> None:
    live = Live()
    worker = Worker(chosen(["whales"], nearest(), live), store=store, beside=[live.attend])

    def die(event: Event) -> None:
        if event.call.name == "swap" and POINTS[point](event.call.args[0], event.seconds is not None):
            os.kill(os.getpid(), signal.SIGKILL)

    worker.tap = die
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
