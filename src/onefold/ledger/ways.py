"""How a key is claimed: the `**how` of the front doors, checked once and turned into bids.

Everything a caller may say beside key and function is named here, and nothing else is accepted. It
reads no store; it does read the wall clock, to tell how old a record is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypedDict, Unpack

from onefold.core.claims import Bid, Ending
from onefold.core.entry import EFFECTS, Effect
from onefold.core.errors import Later, Misconfigured, Refused, Rejected, Unfinished
from onefold.core.key import Key
from onefold.core.terms import Duration, Seconds, Terms, epoch, forever_or_seconds, zero_or_seconds
from onefold.ledger.receipts import fingerprint
from onefold.runtime import current

RESERVED = "onefold."


class How(TypedDict, total=False):
    """What a caller may say about a claim."""

    effect: Effect
    probe: Callable[..., Any] | None
    safe: tuple[type[BaseException], ...]
    content: Any
    wait: Duration
    terms: Terms
    window: Duration
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Way:
    """A checked `how`."""

    effect: Effect = "one-shot"
    probe: Callable[..., Any] | None = None
    safe: tuple[type[BaseException], ...] = ()
    content: Any = None
    wait: Seconds = 0.0
    terms: Terms = Terms()  # noqa: RUF009  (frozen)
    window: Seconds | None = None
    at: datetime | None = None

    def bid(self, key: Key, content: Any = None) -> Bid:
        """Make one attempt on a key, with a token of its own."""
        _check_scope(key.scope)
        mark = fingerprint(content) if content is not None else None
        age, token = self._age() if self.at else 0.0, current().token()
        return Bid(key, token, self.terms, self.effect, self.window, True, age, mark)

    def bids(self, keys: Sequence[Key]) -> list[Bid]:
        """Make one attempt on each of many keys."""
        for scope in {key.scope for key in keys}:
            _check_scope(scope)
        terms, effect, window, age = self.terms, self.effect, self.window, self._age()
        return [
            Bid(key, token, terms, effect, window, True, age)
            for key, token in zip(keys, current().tokens(len(keys)), strict=True)
        ]

    def _age(self) -> Seconds:
        return max(current().time() - epoch(self.at, "at"), 0.0) if self.at is not None else 0.0

    def ending(self, error: BaseException) -> Ending:
        """Judge an exception: nothing happened, or it may have."""
        if isinstance(error, Later):
            return Ending("refused", at_once=True, delay=error.seconds)
        if isinstance(error, Rejected):
            return Ending("rejected")
        if isinstance(error, Unfinished):  # not raised by the effect, so `safe` says nothing about it
            return Ending("raised")
        return Ending("refused" if isinstance(error, (Refused, *self.safe)) else "raised")


def way(how: How, joined: bool) -> Way:
    """Check what a caller said."""
    if not how:
        return _JOINED if joined else _PLAIN
    for name in how:
        if name not in How.__annotations__:
            near = get_close_matches(name, How.__annotations__, 1)
            raise TypeError(f"{name}= is not known here" + (f": did you mean {near[0]}=?" if near else ""))
    effect: Effect = how.get("effect", "joined" if joined else "one-shot")
    _check_effect(effect, joined)
    return Way(
        effect,
        how.get("probe"),
        _exceptions(how.get("safe", ())),
        how.get("content"),
        zero_or_seconds(how.get("wait", 0.0), "wait"),
        _terms(how.get("terms", _PLAIN.terms)),
        forever_or_seconds(how.get("window", "forever"), "window"),
        _moment(how.get("at")),
    )


def for_call(way: Way, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Way:
    """Bind what depends on a call's arguments: a probe is asked about that call."""
    if way.probe is None:
        return way
    probe = way.probe
    return replace(way, probe=lambda: probe(*args, **kwargs))


def _check_scope(scope: str) -> None:
    if scope.startswith(RESERVED):
        raise Misconfigured(f"the scope {scope!r} belongs to Onefold itself: choose another name")


def _check_effect(effect: object, joined: bool) -> None:
    if effect not in EFFECTS:
        raise Misconfigured(f"effect is {effect!r}: choose one of {', '.join(EFFECTS)}")
    if joined and effect != "joined":
        raise Misconfigured(
            f"effect is {effect!r}, but a ledger on a connection commits with it: leave effect out"
        )
    if effect == "joined" and not joined:
        raise Misconfigured(
            'effect is "joined", but this ledger has a store of its own: use Ledger.on(connection)'
        )


def _exceptions(safe: object) -> tuple[type[BaseException], ...]:
    types = safe if isinstance(safe, tuple) else (safe,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in types):
        raise Misconfigured(
            f"safe is {safe!r}: give exception types whose raising means that nothing happened"
        )
    return types


def _terms(terms: object) -> Terms:
    if not isinstance(terms, Terms):
        raise Misconfigured(f"terms is {terms!r:.80}: write Terms(lease=…, keep=…, attempts=…, backoff=…)")
    return terms


def _moment(at: datetime | None) -> datetime | None:
    if at is not None:
        epoch(at, "at")
    return at


_PLAIN = Way()
_JOINED = Way("joined")

__all__ = ["How", "Unpack", "Way", "for_call", "way"]
