"""Ports whose calls are `Call` values: code that awaits a store then runs as a flow.

A simulation or a crash test drives flows call by call. With these ports it can drive `drive.aacquire_one`
and the like too, and so tests the code that runs in production. Nothing here makes a call.
"""

from __future__ import annotations

from typing import cast

from onefold.core import flow
from onefold.core.ports import AsyncClock, AsyncStore
from onefold.drive import AsyncPorts


class _Store:
    get = staticmethod(flow.get)
    swap = staticmethod(flow.swap)
    scan = staticmethod(flow.scan)


class _Clock:
    monotonic = staticmethod(flow.now)
    sleep = staticmethod(flow.sleep)


AS_CALLS = AsyncPorts(cast(AsyncStore, _Store()), cast(AsyncClock, _Clock()))
"""A store and a clock that give each call to whoever drives the flow."""
