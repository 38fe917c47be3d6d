"""Takes secrets out of texts that quote URLs, before anybody prints, logs or stores them.

It knows how secrets look, not which there are; whoever was given one by name masks it by its value.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

_SECRET_NAME = r"[\w.-]*(?:pass|pwd|secret|token|key|credential|auth|signature)[\w.-]*"
_SECRET = re.compile(rf"(?<=[?&;])({_SECRET_NAME})=[^&;\s'\"]*", re.IGNORECASE)
# The path of a file may hold an @; anywhere else, whatever stands before the last one may be a password.
_FILE_USER = re.compile(r"(sqlite://)[^/?#\s'\"]*@")
_USER = re.compile(r"(?<![\w+.-])((?!sqlite:)[a-z][\w+.-]*://)[^\s'\"]*@", re.IGNORECASE)
# Services of chains and chats put the key into the path: /v2/<key>, /bot<number>:<key>/sendMessage.
_WEB = re.compile(r"\b(?:https?|wss?)://[^\s'\"?#]+", re.IGNORECASE)
_PATH_KEY = re.compile(r"(?<=[^/]/)(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w.:~=%-]{20,}")
HIDDEN = "***"


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
    scheme, slashes, rest = url.partition("://")
    if scheme != "sqlite" and "@" in rest:
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return scrubbed(f"{scheme}{slashes}{rest}")


def host_of(url: str) -> str:
    """Name an address by scheme and host alone: a path and a query may hold secrets of any form."""
    try:
        split = urlsplit(url)
        return f"{split.scheme}://{split.hostname}" + (f":{split.port}" if split.port else "")
    except ValueError:
        return "an address that is no URL"


def hosts_alone(line: Any) -> bool:
    """Cut the addresses in a line of an HTTP client's log down to their hosts; a filter for its logger.

    There is one for everybody: of two filters, the one that came first would decide how much is shown.
    """
    if isinstance(line.args, tuple):
        line.args = tuple(host_of(str(one)) if type(one).__name__ == "URL" else one for one in line.args)
    return True
