"""Where a ledger on Cassandra is: `cassandra://user:password@host1:9042,host2/keyspace?…`, read and checked.

It connects to nothing. No option can make a client repeat a statement by itself, or weaken how it is agreed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from onefold.core.errors import Misconfigured
from onefold.core.redaction import ESCAPED, check_login
from onefold.core.terms import Seconds, seconds

PORT = 9042
PREFIX = "onefold"
PROTOCOL = 4
"""Spoken by Cassandra from 2.2 to 5 and by Scylla; older servers are named with `protocol_version=3`."""

TIMEOUT: Seconds = 10.0
"""Seconds that an answer is waited for; connecting, at most half of it."""

MAX_SKEW: Seconds = 60.0
"""How far apart workers' clocks may be, unless the URL says otherwise."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?")
_SHAPE = "write cassandra://host1,host2/keyspace, as in cassandra://127.0.0.1:9042/shop"


class Address(NamedTuple):
    """A keyspace and the names of its tables, and how to come there."""

    hosts: tuple[tuple[str, int], ...]
    keyspace: str
    user: str | None = None
    password: str = ""
    prefix: str = PREFIX
    dc: str | None = None
    """The data centre that workers talk to, where there are several; claims are agreed among all of them."""
    protocol: int = PROTOCOL
    timeout: Seconds = TIMEOUT
    max_skew: Seconds = MAX_SKEW

    @property
    def name(self) -> str:
        """The keyspace for people, without secrets."""
        host, port = self.hosts[0]
        more = f" and {len(self.hosts) - 1} more" if len(self.hosts) > 1 else ""
        return f"the cassandra keyspace {self.keyspace} at {host}:{port}{more}"

    def table(self, name: str) -> str:
        """Name a table as statements do; in quotes, because names without them lose their capitals."""
        return f'"{self.keyspace}"."{self.prefix}_{name}"'


def address(url: str) -> Address:
    """Read a URL, or say what is wrong with it."""
    check_login(url, "the store's cassandra:// URL", several=True)
    try:
        split = urlsplit(url)
        given = parse_qsl(split.query, keep_blank_values=True, strict_parsing=bool(split.query))
    except ValueError:
        raise Misconfigured(f"the store's cassandra:// URL cannot be read: {_SHAPE}") from None
    names = [name for name, _ in given]
    if split.fragment or len(set(names)) < len(names) or not _OPTIONS.keys() >= set(names):
        raise Misconfigured(
            "the store's cassandra:// URL has an unknown option, one twice, or a #: "
            f"{', '.join(_OPTIONS)} are known"
        )
    login, _, hosts = split.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = {_FIELDS.get(name, name): _OPTIONS[name](value) for name, value in given}
    return Address(
        tuple(_host(each) for each in hosts.split(",")),
        _keyspace(unquote(split.path[1:])),
        unquote(user) or None,
        unquote(password),
        **options,
    )


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if not found and ":" in text:
        # Not quoted: it may be a user and a password, without the host that should follow.
        raise Misconfigured(f"a part of the store's cassandra:// URL is no host: {_SHAPE}, and {ESCAPED}")
    if not found or not 0 < int(found[3] or PORT) < 65_536:
        raise Misconfigured(f"{text!r:.80} in the store's cassandra:// URL is no host: {_SHAPE}")
    return found[1] or found[2], int(found[3] or PORT)


def _keyspace(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise Misconfigured(f"{text!r:.80} in the store's cassandra:// URL is no keyspace: {_SHAPE}")
    return text


def _prefix(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise Misconfigured(
            f"prefix={text!r:.80} cannot begin the name of a table: a letter, then letters, digits and _ can"
        )
    return text


def _dc(text: str) -> str:
    if not text:
        raise Misconfigured(
            "dc in the store's cassandra:// URL is empty: name a data centre, or leave it out"
        )
    return text


def _protocol(text: str) -> int:
    if text not in ("3", "4", "5"):
        raise Misconfigured(f"protocol_version={text!r:.40} is not spoken here: 3, 4 and 5 are")
    return int(text)


def _timeout(text: str) -> Seconds:
    wait = _seconds(text, "timeout")
    if not 0.1 <= wait <= 3600:
        raise Misconfigured(f"timeout={text!r:.40} is no time to wait: write seconds, from 0.1 to 3600")
    return wait


def _skew(text: str) -> Seconds:
    return 0.0 if text == "0" else _seconds(text, "max_skew")


def _seconds(text: str, name: str) -> Seconds:
    value = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text
    return seconds(value, f"{name} in the store's URL")


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "prefix": _prefix,
    "dc": _dc,
    "protocol_version": _protocol,
    "timeout": _timeout,
    "max_skew": _skew,
}
_FIELDS = {"protocol_version": "protocol"}
