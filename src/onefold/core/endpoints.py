"""Which of several addresses of one service to use, decided from what is known of each.

Health has hysteresis: it takes several failures in a row to fall and several successes to rise, so that a
single hiccup moves nobody. Nothing here connects, resolves a name or reads a clock; times come in as values.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol, get_args
from urllib.parse import urlsplit

from onefold.core.errors import Misconfigured
from onefold.core.record import At
from onefold.core.redaction import safe_url, scrubbed
from onefold.core.terms import Seconds

Health = Literal["healthy", "unhealthy", "unknown"]

REFERENCES = ("env:", "file:")
"""How an address begins that only says where the address itself, with its secret, is to be found."""

HEALTHS: tuple[Health, ...] = get_args(Health)
_RANK: dict[Health, int] = {"healthy": 0, "unknown": 1, "unhealthy": 2}
_REASON = 300

_LOCAL_NAME = re.compile(r"(?:.*\.)?(?:localhost|local|internal|home\.arpa)\.?", re.IGNORECASE)
# Old ways to write an address that resolvers still take: 127.1, 2130706433, 0x7f000001.
_NUMBER = r"(?:0x[0-9a-f]*|[0-9]+)"
_ODD_ADDRESS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})*\.?", re.IGNORECASE)


class Endpoint(NamedTuple):
    """One address of a service, what somebody wants of it, and what is known of it."""

    url: str
    """May be `env:NAME` or `file:PATH`, so that an address with a secret in it need not be stored."""
    priority: int = 0
    """Smaller is preferred."""
    enabled: bool = True
    health: Health = "unknown"
    failures: int = 0
    """In a row."""
    successes: int = 0
    """In a row."""
    failed: float | None = None
    """When it failed last, in seconds since 1970."""
    reason: str = ""
    """Why it failed last."""

    @property
    def id(self) -> str:
        """Names the address without showing it."""
        return blake2b(self.url.encode(), digest_size=8).hexdigest()

    @property
    def shown(self) -> str:
        """The address for people: no user, no password, no key."""
        return safe_url(self.url)


class Picks(Protocol):
    """Gives a source the address for its next connection, and hears how that went."""

    async def pick(self) -> str: ...

    async def tell(self, url: str, error: str | None) -> None: ...


# ----- health


class Patience(NamedTuple):
    """How many failures in a row make an endpoint unhealthy, how many successes make it healthy."""

    failures: int = 3
    successes: int = 2


def heard(endpoint: Endpoint, error: str | None, now: float, patience: Patience = Patience()) -> Endpoint:  # noqa: B008
    """Say what is known of an endpoint after one more probe or connection."""
    if error is None:
        successes = min(endpoint.successes + 1, patience.successes)
        health: Health = "healthy" if successes >= patience.successes else endpoint.health
        return endpoint._replace(health=health, failures=0, successes=successes)
    failures = min(endpoint.failures + 1, patience.failures)
    health = "unhealthy" if failures >= patience.failures else endpoint.health
    reason = scrubbed(error, endpoint.url)[:_REASON]
    return endpoint._replace(health=health, failures=failures, successes=0, failed=now, reason=reason)


class Facts(NamedTuple):
    """What a probe found out; what it did not ask stays None."""

    version: str | int | None = None
    """What the far side is: a chain, a network, a version."""
    head: At | None = None
    """How far the far side itself has come: a block, a sequence number."""
    age: Seconds | None = None
    """How old that head is."""


class Demands(NamedTuple):
    """What the facts must be for an endpoint to be of use; what is None is not asked."""

    version: str | int | None = None
    behind: At | None = None
    """How far its head may be behind the furthest of the pool."""
    age: Seconds | None = None


def complaints(found: Mapping[str, Facts | str], demands: Demands) -> dict[str, str | None]:
    """Say what is wrong with each endpoint, by what its probe found; a text is why it could not be asked."""
    right = [facts for facts in found.values() if isinstance(facts, Facts) and _is_right(facts, demands)]
    furthest = _furthest([facts.head for facts in right if facts.head is not None])
    return {
        url: facts if isinstance(facts, str) else _complaint(facts, demands, furthest)
        for url, facts in found.items()
    }


def _is_right(facts: Facts, demands: Demands) -> bool:
    return demands.version is None or facts.version == demands.version


def _furthest(heads: Sequence[At]) -> At | None:
    """Return the head that the others are measured by; among three or more, one liar alone cannot set it."""
    descending = sorted(heads, reverse=True)
    return descending[1 if len(descending) > 2 else 0] if descending else None


def _complaint(facts: Facts, demands: Demands, furthest: At | None) -> str | None:
    if not _is_right(facts, demands):
        return f"it is {facts.version!r:.80}, and {demands.version!r:.80} is wanted"
    if demands.behind is not None:
        if facts.head is None or furthest is None:
            return "it does not say how far it has come"
        if furthest - facts.head > demands.behind:
            return f"its head {facts.head} is behind {furthest} by more than {demands.behind}"
    if demands.age is not None and (facts.age is None or facts.age > demands.age):
        return f"its head is {'of unknown age' if facts.age is None else f'{facts.age:.0f} s old'}"
    return None


# ----- choice


def ranked(endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Sort those that may be used: by health, then by priority, then the least recently failed first."""
    usable = [one for one in endpoints if one.enabled]
    return sorted(usable, key=lambda one: (_RANK[one.health], one.priority, one.failed or 0.0))


def choose(endpoints: Iterable[Endpoint]) -> Endpoint | None:
    """Return the best, or the least bad; None if nothing is enabled."""
    return next(iter(ranked(endpoints)), None)


# ----- addresses


def check_url(url: str, schemes: Sequence[str], private: bool = False) -> None:
    """Refuse an address that is of another scheme, or that leads into a private network unasked."""
    try:
        split = urlsplit(url)
        host, _ = split.hostname, split.port
    except ValueError:
        raise Misconfigured(f"{safe_url(url)} is no URL") from None
    if split.scheme not in schemes:
        allowed = ", ".join(f"{scheme}://" for scheme in schemes)
        raise Misconfigured(f"{safe_url(url)} has a scheme that is not allowed here: use {allowed}")
    if not host:
        raise Misconfigured(f"{safe_url(url)} names no host")
    if not private and is_private(host):
        raise Misconfigured(
            f"{safe_url(url)} leads into a private network: say private=True if that is meant"
        )


def is_private(host: str) -> bool:
    """Say whether a host is this machine or inside some private network, as far as its text tells."""
    try:
        return not _reaches_out(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return bool(_LOCAL_NAME.fullmatch(host) or _ODD_ADDRESS.fullmatch(host))


def _reaches_out(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        # An address of the old kind inside one of the new kind leads where the old one leads.
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return _reaches_out(inner)
    return address.is_global and not address.is_multicast


# ----- texts


def wanted(rows: Any, schemes: Sequence[str], private: bool = False) -> list[Endpoint]:
    """Read the endpoints that a person or a program asks for; what is wrong is said by its place."""
    if not isinstance(rows, list) or not rows:
        raise Misconfigured('endpoints are a list like [{"url": "wss://…", "priority": 1}]')
    read = [_wanted(at, row) for at, row in enumerate(rows, 1)]
    for one in read:
        if not one.url.startswith(REFERENCES):
            check_url(one.url, schemes, private)
    if len({one.url for one in read}) != len(read):
        raise Misconfigured("an endpoint is given twice")
    return read


def check_put(rows: Any) -> None:
    """Refuse to store what no pool could use, and what carries a secret in the clear.

    Whether a private address is meant is the pool's to know.
    """
    for one in wanted(rows, ("ws", "wss", "http", "https"), private=True):
        if one.shown != one.url:
            raise Misconfigured(f"{one.shown} carries a secret: write env:NAME or file:PATH in its place")


def _wanted(at: int, row: Any) -> Endpoint:
    row = {"url": row} if isinstance(row, str) else row
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise Misconfigured(f'endpoint {at} has no "url"')
    unknown = sorted(set(row) - {"url", "priority", "enabled"})
    if unknown:
        raise Misconfigured(f"endpoint {at} has {unknown[0]!r:.40}: url, priority and enabled are known")
    priority, enabled = row.get("priority", 0), row.get("enabled", True)
    if type(priority) is not int or type(enabled) is not bool:
        raise Misconfigured(f"endpoint {at}: priority is a whole number, enabled is true or false")
    return Endpoint(row["url"], priority, enabled)


def text_of(pool: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Write what is known of a pool as a document; of addresses only what may be shown."""
    rows = [{"id": one.id, "shown": one.shown, **_known(one)} for one in endpoints]
    return {"pool": pool, "endpoints": rows}


def _known(one: Endpoint) -> dict[str, Any]:
    known = one._asdict()
    del known["url"]
    return known


def with_health(endpoints: Sequence[Endpoint], text: Any) -> list[Endpoint]:
    """Add to endpoints what a pool's document knows of them."""
    rows = {row["id"]: row for row in (text or {}).get("endpoints", ())}
    return [_read(one, rows.get(one.id)) for one in endpoints]


def _read(one: Endpoint, row: Mapping[str, Any] | None) -> Endpoint:
    if row is None:
        return one
    known = {name: row[name] for name in ("health", "failures", "successes", "failed", "reason")}
    return one._replace(**known)
