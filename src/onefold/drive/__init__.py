"""The only functions that wait: they make the calls that flows ask for.

`run` blocks and `arun` awaits; `acquire_one`, `end_one` and their async twins spare single calls
a flow; `Merged` and `AsyncMerged` put a queue in front of a store, so that
what is asked while a call is under way leaves together in the next; `Heart` and `AsyncHeart` keep
claims alive beside their effects. Everything passes one tap. No decision about a key is taken here.
What awaits imports asyncio when it is used: a command that blocks need not pay for it.
"""

from __future__ import annotations

from onefold.drive.awaiting import Inline, OneThread, Threaded
from onefold.drive.hearts import LINGER, AsyncHeart, Heart
from onefold.drive.merging import AsyncMerged, Merged
from onefold.drive.singles import aacquire_one, acquire_one, aend_one, end_one
from onefold.drive.waiting import (
    GRACE,
    AsyncPorts,
    AsyncWallClock,
    Event,
    Ports,
    Tap,
    Tapped,
    WallClock,
    arun,
    run,
)

__all__ = [
    "GRACE",
    "LINGER",
    "AsyncHeart",
    "AsyncMerged",
    "AsyncPorts",
    "AsyncWallClock",
    "Event",
    "Heart",
    "Inline",
    "Merged",
    "OneThread",
    "Ports",
    "Tap",
    "Tapped",
    "Threaded",
    "WallClock",
    "aacquire_one",
    "acquire_one",
    "aend_one",
    "arun",
    "end_one",
    "run",
]
