"""Stores in threads use no thread where the runtime runs blocking functions on the loop itself."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from onefold.core.key import Key
from onefold.drive import OneThread, Threaded
from onefold.runtime import Runtime
from onefold.stores.memory import MemoryStore


class Here(Runtime):
    """Runs blocking functions where they are asked for."""

    inline = True

    async def blocking(self, function: Callable[..., Any], *args: Any, linger: float = 0.0) -> Any:
        return function(*args)


class Told(MemoryStore):
    """Notes which threads ask it."""

    def __init__(self) -> None:
        super().__init__()
        self.askers: set[int] = set()

    def get(self, keys: Any) -> Any:
        self.askers.add(threading.get_ident())
        return super().get(keys)


@pytest.mark.parametrize("kind", [Threaded, OneThread])
def test_a_store_in_threads_is_asked_on_the_loop_itself(kind):
    store = Told()

    async def ask() -> None:
        async with Here().running():
            awaited = kind(store)
            await awaited.get([Key("a", "b")])
            await awaited.close()

    anyio.run(ask)

    assert store.askers == {threading.get_ident()}
