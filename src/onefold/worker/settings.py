"""Live settings: named JSON values in the store that operators change while workers run.

Operators put them by compare-and-set, each with who did it; apps read them through `Live`, which asks the
store at most every few seconds. What a value may be is said by its type; a value that does not fit is refused
when it is put, and never handed to an app.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from onefold.core.audit import note
from onefold.core.documents import Document, load, named, save
from onefold.core.entry import BODY_LIMIT
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.flow import Flow
from onefold.core.key import Key
from onefold.drive import AsyncPorts, arun
from onefold.runtime import monotonic

T = TypeVar("T")

EVERY = 3.0
"""Seconds for which a live setting is believed before the store is asked again."""

_NOTHING: Any = object()


class Stored(NamedTuple):
    """A setting as it stands: its value, how often it was put, by whom and when."""

    value: Any
    number: int
    by: str
    written: float


def setting_key(name: str) -> Key:
    """Name the document of a setting."""
    return named("settings", name)


async def get(name: str) -> Stored | None:
    """Read a setting."""
    [document] = await load([setting_key(name)])
    return _stored(document)


async def put(name: str, value: Any, by: str, token: str, expected: int) -> Stored | None:
    """Write a setting over the one with this number (0: none); None if another stands there now."""
    key = setting_key(name)
    stands = await get(name)
    if (stands.number if stands else 0) != expected:
        return None
    await note(key, {"act": "put", "by": by, "over": expected}, token)
    wanted = {"value": value, "number": expected + 1, "by": by, "put": token}

    def change(stands: Any) -> Any:
        return wanted if (stands or {}).get("number", 0) == expected else None

    document = await save(key, token, change)
    # Another's value may carry the same number; only the token tells whose it is.
    mine = document is not None and document.value.get("put") == token
    return _stored(document) if mine else None


def _stored(document: Document | None) -> Stored | None:
    if document is None:
        return None
    text = document.value
    return Stored(text.get("value"), text.get("number", 0), text.get("by", ""), document.written)


def checked(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that does not fit its type, or is too large to be kept."""
    import json

    import msgspec

    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Misconfigured(f"{name} holds what JSON cannot: {error}") from None
    if len(text.encode()) > BODY_LIMIT - 1024:
        raise Misconfigured(f"{name} is too large: a setting has at most {BODY_LIMIT - 1024:,} bytes of JSON")
    if kind is None:
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"{name} does not fit: {str(error).replace('`', '')}") from None


# ----- reading while running


class Live:
    """What a running worker's apps read settings from; `prefix` is the app's name and a dot."""

    def __init__(
        self, prefix: str = "", every: float = EVERY, clock: Callable[[], float] = monotonic
    ) -> None:
        self._prefix = prefix
        self._every = every
        self._clock = clock
        self._bound: list[AsyncPorts] = []

    def of(self, app: str) -> Live:
        """Return the same settings as one app sees them."""
        mine = Live(f"{app}.", self._every, self._clock)
        mine._bound = self._bound
        return mine

    async def attend(self, ports: AsyncPorts) -> None:
        """Read from these ports from now on; a worker runs it beside its pipelines."""
        self._bound[:] = [ports]

    def setting(self, name: str, kind: Any, default: Any = _NOTHING) -> Setting[Any]:
        """Return a setting that follows the store; without a default it must be put before it is read."""
        return Setting(self, self._prefix + name, kind, default)

    async def read(self, name: str) -> Stored | None:
        """Ask the store."""
        return await self.ask(get(name), f"{name} is a live setting")

    async def ask(self, flow: Flow[T], what: str = "this is a text of the worker's store") -> T:
        """Ask the worker's store; an app that keeps a document of its own, as a daily count, does it so."""
        if not self._bound:
            flow.close()
            raise Misconfigured(f"{what}: it can be read while its worker runs")
        return await arun(flow, self._bound[0])

    def now(self) -> float:
        return self._clock()

    @property
    def every(self) -> float:
        return self._every


class Setting(Generic[T]):
    """One live setting, as of a few seconds ago."""

    def __init__(self, live: Live, name: str, kind: Any, default: T) -> None:
        self.name = name
        self.number = 0
        """How often the value that is believed now was put; 0 while it is the default."""
        self.written: float | None = None
        """When that value was put, by the store's clock."""
        self._live = live
        self._kind = kind
        self._default = default
        self._value: T = _NOTHING
        self._asked: float | None = None

    async def value(self) -> T:
        """Return what stands; what stood last, while the store is away or holds what does not fit."""
        now = self._live.now()
        if self._value is not _NOTHING and self._asked is not None and now - self._asked < self._live.every:
            return self._value
        try:
            return await self.fresh()
        except OnefoldError as error:
            if self._value is _NOTHING:
                raise
            _complain(self.name, error)
        self._asked = now
        return self._value

    async def fresh(self) -> T:
        """Ask the store now, for a decision that an old value would get wrong for good.

        Raises if the store cannot be reached, or holds a value that does not fit.
        """
        began = self._live.now()
        self._take(await self._live.read(self.name))
        self._asked = began
        return self._value

    def _take(self, stored: Stored | None) -> None:
        if stored is None:
            if self._default is _NOTHING:
                raise Misconfigured(f"{self.name} is not set: onefold settings put {self.name} FILE")
            self._value, self.number, self.written = self._default, 0, None
        elif stored.number != self.number or self._value is _NOTHING:
            self._value = _read(self.name, stored, self._kind)
            self.number, self.written = stored.number, stored.written


def _read(name: str, stored: Stored, kind: Any) -> Any:
    import msgspec

    try:
        return msgspec.convert(stored.value, kind)
    except msgspec.ValidationError as error:
        raise Misconfigured(
            f"{name} number {stored.number}, put by {stored.by}, does not fit: {str(error).replace('`', '')}"
        ) from None


def _complain(name: str, error: OnefoldError) -> None:
    import logging

    logging.getLogger("onefold.worker").error("%s stays as it was: %s", name, error)
