"""Takes secrets out of texts that quote URLs, before anybody prints, logs or stores them.

It knows how secrets look, and those that the configuration named: `worker.secret` adds them to `KNOWN`.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from onefold.core.errors import Misconfigured

_SECRET_NAME = r"[\w.-]*(?:pass|pwd|secret|token|key|credential|auth|signature)[\w.-]*"
_SECRET = re.compile(rf"(?<=[?&;])({_SECRET_NAME})=[^&;\s'\"]*", re.IGNORECASE)
# The path of a file may hold an @; anywhere else, whatever stands before the last one may be a password.
_FILE_USER = re.compile(r"(sqlite://)[^/?#\s'\"]*@")
_USER = re.compile(r"(?<![\w+.-])((?!sqlite:)[a-z][\w+.-]*://)[^\s'\"]*@", re.IGNORECASE)
# Services of chains and chats put the key into the path: /v2/<key>, /bot<number>:<key>/sendMessage.
_WEB = re.compile(r"\b(?:https?|wss?)://[^\s'\"?#]+", re.IGNORECASE)
_PATH_KEY = re.compile(r"(?<=[^/]/)(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w.:~=%-]{20,}")
HIDDEN = "***"
KNOWN: set[str] = set()
"""The secrets that this process was given by name; they are masked wherever they are quoted."""


def masked(text: str) -> str:
    """Take every known secret, and whatever looks like one in a URL, out of a text."""
    # The longest first: one secret may begin with another.
    for value in sorted(KNOWN, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return scrubbed(text)


ESCAPED = "write @ : / ? # in a password as %40 %3A %2F %3F %23"
"""What to do about a URL that breaks inside of its password."""


def scrubbed(text: str, url: str = "") -> str:
    """Take users, passwords and secret-looking options out of every URL in a text, which may quote `url`."""
    if url:
        safe = safe_url(url)
        text = text.replace(url, safe).replace(repr(url)[1:-1], safe)
    for pattern in (_FILE_USER, _USER):
        text = pattern.sub(rf"\1{HIDDEN}@", text)
    text = _WEB.sub(lambda url: _PATH_KEY.sub(HIDDEN, url[0]), text)
    return _SECRET.sub(rf"\1={HIDDEN}", text)


def safe_url(url: str) -> str:
    """Take the secrets out of a URL, even where blanks or quotes in it would hide them from `scrubbed`."""
    scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
    if scheme != "sqlite" and not url.startswith("sqlite:") and "@" in rest:
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return scrubbed(f"{scheme}{slashes}{rest}")


def host_of(url: str) -> str:
    """Name an address by scheme and host alone: a path and a query may hold secrets of any form."""
    if breaks_in_login(url):
        return f"{url.partition('://')[0]}://{HIDDEN}"
    try:
        split = urlsplit(url)
        return f"{split.scheme}://{split.hostname}" + (f":{split.port}" if split.port else "")
    except ValueError:
        return "an address that is no URL"


def breaks_in_login(url: str) -> bool:
    """Say whether a password that is not escaped may have been read as a host, a port or a path.

    It may where an @ comes after the first / ? or #, and a colon before it.
    """
    authority, rest = _parted(url)
    return ":" in authority and "@" in rest


def check_login(url: str, what: str, several: bool = False) -> None:
    """Refuse a URL with an unescaped / ? # or @ in its password, before a part of that is quoted as a host.

    `several` allows an @ inside of the password, for readers that part a URL at the last one.
    """
    authority, rest = _parted(url)
    if "@" in rest or (authority.count("@") > 1 and not several):
        raise Misconfigured(f"{what} cannot be read, because it has an @ in a wrong place: {ESCAPED}")


def is_web(url: str, what: str) -> bool:
    """Say whether a URL names a web server; refuse one that cannot be read, without quoting it."""
    try:
        split = urlsplit(url)
        known, _ = split.scheme in ("http", "https") and bool(split.hostname), split.port
    except ValueError:
        # Not quoted: the part that cannot be read may belong to a password.
        raise Misconfigured(f"{what} cannot be read: {ESCAPED}") from None
    return known


def _parted(url: str) -> tuple[str, str]:
    """Part a URL, without its scheme, before the first / ? or #."""
    after = url.partition("://")[2]
    end = next((at for at, letter in enumerate(after) if letter in "/?#"), len(after))
    return after[:end], after[end:]


def hosts_alone(line: Any) -> bool:
    """Cut the addresses in a line of an HTTP client's log down to their hosts; a filter for its logger.

    There is one for everybody: of two filters, the one that came first would decide how much is shown.
    """
    if isinstance(line.args, tuple):
        line.args = tuple(host_of(str(one)) if type(one).__name__ == "URL" else one for one in line.args)
    return True
