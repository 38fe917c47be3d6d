"""Where a ledger on DynamoDB is: `dynamodb://REGION/TABLE?endpoint=URL&max_skew=60s`, read and checked.

Credentials have no place in it; they come from where AWS tools look for them. It connects to nothing.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from onefold.core.errors import Misconfigured
from onefold.core.terms import Seconds, seconds

MAX_SKEW: Seconds = 60.0
"""How far apart workers' clocks may be, unless the URL says otherwise."""

_REGION = re.compile(r"[a-z0-9-]{2,40}")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_SHAPE = "write dynamodb://REGION/TABLE, as in dynamodb://eu-central-1/onefold"


class Address(NamedTuple):
    """A table, and how far apart the clocks of its users may be."""

    region: str
    table: str
    endpoint: str | None = None
    """Another server than AWS's own, as for DynamoDB Local."""
    max_skew: Seconds = MAX_SKEW

    @property
    def name(self) -> str:
        """The table for people, without secrets."""
        where = urlsplit(self.endpoint).netloc if self.endpoint else self.region
        return f"the dynamodb table {self.table} at {where}"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, where any credentials will do."""
        host = urlsplit(self.endpoint or "").hostname or ""
        return host == "localhost" or (_is_number(host) and ip_address(host).is_loopback)


def address(url: str) -> Address:
    """Read a URL, or say what is wrong with it."""
    try:
        split = urlsplit(url)
    except ValueError:
        raise Misconfigured(f"the store's dynamodb:// URL cannot be read: {_SHAPE}") from None
    if "@" in url:  # also behind a / ? or # that belongs to a password
        raise Misconfigured(
            "the store's dynamodb:// URL has an @: credentials come from AWS_PROFILE, the environment or the "
            "machine's role, never from the URL"
        )
    region, table = split.netloc, unquote(split.path[1:])
    if not _REGION.fullmatch(region):
        raise Misconfigured(f"{region!r:.80} in the store's dynamodb:// URL is no region: {_SHAPE}")
    if not _TABLE.fullmatch(table):
        raise Misconfigured(
            f"{table!r:.80} in the store's dynamodb:// URL is no table: 3 to 255 letters, digits, _ . or -"
        )
    options = _options(split)
    skew = options.get("max_skew")
    return Address(
        region, table, _endpoint(options.get("endpoint")), MAX_SKEW if skew is None else _skew(skew)
    )


def _options(split: SplitResult) -> dict[str, str]:
    given = parse_qsl(split.query, keep_blank_values=True)
    names = [name for name, _ in given]
    if split.fragment or len(set(names)) < len(names) or not {"endpoint", "max_skew"}.issuperset(names):
        raise Misconfigured(
            "the store's dynamodb:// URL has an unknown option, one twice, or a #: "
            "endpoint and max_skew are known"
        )
    return dict(given)


def _endpoint(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        split, port = urlsplit(""), None
    plain = not (split.username or split.query or split.fragment) and split.path in ("", "/") and port != 0
    if split.scheme not in ("http", "https") or not split.hostname or not plain:
        raise Misconfigured(
            "endpoint in the store's dynamodb:// URL names no server: write endpoint=http://127.0.0.1:8000"
        )
    return text


def _skew(text: str) -> Seconds:
    if text == "0":
        return 0.0
    return seconds(float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text, "max_skew in the store's URL")


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
