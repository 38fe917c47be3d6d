"""What a mariadb:// URL says: where the server is, which database, who asks, and how long to wait.

It reads the URL and connects to nothing. No secret is ever in an error's text.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from onefold.core.errors import Misconfigured
from onefold.core.redaction import ESCAPED, check_login
from onefold.stores.timeouts import timeout

PORT = 3306
TIMEOUT = 30.0
"""Seconds without an answer after which a connection is given up; for connecting, at most five."""

FILES = ("ca", "cert", "key")
"""Files for TLS: the authority's certificate, one's own, and its key. Without any, nothing is encrypted."""

SYSTEM = "system"
"""Stands for the authorities that the system trusts, instead of a file."""

OPTIONS = ("timeout", "socket", *FILES)


class Address(NamedTuple):
    """Everything that is known of a store before it is reached. `name` has no secrets in it."""

    name: str
    database: str
    settings: dict[str, Any]
    """What both clients are told in the same words."""
    timeout: float = TIMEOUT
    files: tuple[str | None, ...] = ()
    """For TLS, in the order of FILES; empty without it."""

    @property
    def patience(self) -> float:
        """Seconds that connecting may take."""
        return min(self.timeout, 5.0)


def address(url: str) -> Address:
    """Read `mariadb://[user[:password]@]host[:port]/database[?timeout=…&socket=…&ca=…]`, or mysql://."""
    check_login(url, "the store's mariadb:// URL")
    try:
        parts = urlsplit(url)
        port, options = parts.port or PORT, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        readable = "@" not in (parts.username or "") + (parts.password or "") and not parts.fragment
    except ValueError:
        readable = False
    if not readable:
        # Not told which part: a password that is not escaped ends up in any of them.
        raise Misconfigured(
            f"the store's mariadb:// URL cannot be read: check host, port and options, and {ESCAPED}"
        ) from None
    if strange := next((name for name in options if name not in OPTIONS), None):
        raise Misconfigured(
            f"the store's mariadb:// URL has an option {strange!r:.40}; known are {', '.join(OPTIONS)}"
        )
    return _address(parts, port, options)


def _address(parts: SplitResult, port: int, options: dict[str, str]) -> Address:
    host, database = parts.hostname or "localhost", unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise Misconfigured(
            f"the store's mariadb:// URL names no database: write one, as in mariadb://{host}:{port}/onefold"
        )
    settings: dict[str, Any] = {"host": host, "port": port, "charset": "utf8mb4"}
    settings |= {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    where = f"{host}:{port}"
    if "socket" in options:
        where = settings["unix_socket"] = os.path.abspath(options["socket"])
    secure = any(name in options for name in FILES)
    files = tuple(_placed(options.get(name)) for name in FILES) if secure else ()
    seconds = timeout(options.get("timeout", str(TIMEOUT)))
    return Address(f"mariadb at {where}/{database}", database, settings, seconds, files)


def _placed(file: str | None) -> str | None:
    """Name a file by its whole path: the process may change its folder later."""
    return file if file in (None, "", SYSTEM) else os.path.abspath(file)
