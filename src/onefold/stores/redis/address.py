"""What a redis:// URL says: where the server is, which database, under which prefix, and how long to wait.

It reads the URL and connects to nothing. No option can make a client repeat a command by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from onefold.core.errors import Misconfigured
from onefold.core.redaction import ESCAPED, check_login
from onefold.stores.timeouts import timeout

PREFIX = "onefold"
PREFIX_LENGTH = 64

PORT = 6379
TIMEOUT = 10.0
"""Seconds that an answer is waited for; connecting, at most half of it."""

_SECURE = {
    "ca": "ssl_ca_certs",
    "cert": "ssl_certfile",
    "key": "ssl_keyfile",
}
"""Options of rediss:// that name files, and what the client calls them."""

VERIFIED: dict[str, Any] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
"""Told to every client for TLS: redis-py before 6 checks no host names by itself."""


class Address(NamedTuple):
    """Everything that is known of a store before it is reached. `name` has no secrets in it."""

    name: str
    prefix: str
    secure: bool
    settings: dict[str, Any]
    """What the client is told, beside how it must behave."""


def address(url: str) -> Address:
    """Read `redis://[user:password@]host[:port][/database][?prefix=…&timeout=…]`, or rediss:// for TLS.

    valkey:// and valkeys:// say the same.
    """
    check_login(url, "the store's redis:// URL", several=True)
    try:
        parts = urlsplit(url)
        port, options = parts.port or PORT, parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise Misconfigured(
            f"the store's redis:// URL cannot be read: check its host, port and options, and {ESCAPED}"
        ) from None
    host, database = parts.hostname or "localhost", _database(parts)
    secure = parts.scheme in ("rediss", "valkeys")
    settings: dict[str, Any] = {"host": host, "port": port, "db": database}
    if parts.username:
        settings["username"] = unquote(parts.username)
    if parts.password:
        settings["password"] = unquote(parts.password)
    if secure:
        settings |= VERIFIED
    told = _told(options, secure)
    seconds = told.pop("timeout", TIMEOUT)
    settings |= {"socket_timeout": seconds, "socket_connect_timeout": seconds / 2}
    prefix = told.pop("prefix", PREFIX)
    return Address(f"redis at {host}:{port}/{database}", prefix, secure, settings | told)


def _database(parts: SplitResult) -> int:
    path = parts.path.strip("/")
    if path and not (path.isascii() and path.isdigit()):
        raise Misconfigured(
            f"{path!r:.40} is no database of a Redis: it has a number, as in redis://host:6379/0"
        )
    return int(path or 0)


def _told(options: list[tuple[str, str]], secure: bool) -> dict[str, Any]:
    known: dict[str, Callable[[str], Any]] = {"prefix": _prefix, "timeout": timeout}
    if secure:
        known |= dict.fromkeys(_SECURE, os.path.abspath)  # the process may change its folder later
    if strange := next((name for name, _ in options if name not in known), None):
        raise Misconfigured(
            f"the store's redis:// URL has an option {strange!r:.40}; known are {', '.join(known)}"
        )
    return {_SECURE.get(name, name): known[name](value) for name, value in options}


def _prefix(value: str) -> str:
    if not 0 < len(value) <= PREFIX_LENGTH or not value.isprintable() or set(value) & set("{}"):
        raise Misconfigured(
            f"prefix={value!r:.80} cannot stand before keys: "
            f"1 to {PREFIX_LENGTH} printable characters without braces can"
        )
    return value
