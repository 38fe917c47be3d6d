"""SQLite, the default store: a file of Onefold's own, or the caller's transaction.

This module opens either by URL or connection; the work is in `plan`, `file` and `joined`.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from onefold.core.errors import Misconfigured
from onefold.drive import OneThread
from onefold.stores.sql import printable
from onefold.stores.sqlite.file import SqliteStore
from onefold.stores.sqlite.joined import JoinedStore, adapt

__all__ = ["JoinedStore", "SqliteStore", "aconnect", "adapt", "connect", "ddl"]


def connect(url: str, create: bool = True) -> SqliteStore:
    """Open `sqlite:///relative.db` or `sqlite:////absolute.db`, with `?synchronous=normal` if wished."""
    split = urlsplit(url)
    if not url.startswith("sqlite:///") or len(split.path) < 2:
        raise Misconfigured(f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db")
    if "#" in url:
        raise Misconfigured(f"{url!r} has a # in it: write %23 if it belongs to the name of the file")
    options = parse_qsl(split.query, keep_blank_values=True)
    if [name for name, _ in options] not in ([], ["synchronous"]):
        raise Misconfigured(f"{url!r} has an unknown option, or one twice: synchronous is the only one")
    synchronous = dict(options).get("synchronous", "full").lower()
    return SqliteStore(unquote(split.path[1:]), create=create, synchronous=synchronous)


def aconnect(url: str, create: bool = True) -> OneThread:
    """Open the same store for awaiting; its calls run in one thread, to their end."""
    return OneThread(connect(url, create))


def ddl() -> str:
    """Return the schema as SQL that can be run by hand."""
    return printable("sqlite")
