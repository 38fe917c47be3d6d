"""What the errors of a Redis mean to whoever waits for a claim: sorted once, with a sentence each.

Misconfigured: no repetition mends it. Unreachable: it was not done, and may be done later. Unanswered: it may
have been done. Nothing in here asks a server, and no secret is ever in an error's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.transport import distrust

CLUSTER = "is a node of a cluster, which Onefold cannot use yet: use a single server"

# If an error comes from a script, some servers put its code into the middle of the text.
_SENTENCES: dict[str, tuple[type[OnefoldError], str]] = {
    "NOAUTH": (Misconfigured, "wants a password: write it into the URL, as in redis://:password@host"),
    "WRONGPASS": (Misconfigured, "refuses the name or password in the URL: {reason}"),
    "NOPERM": (Misconfigured, "does not let this user do it (ACL): {reason}"),
    "WRONGTYPE": (Misconfigured, "has something else under this prefix: choose another with ?prefix="),
    "MOVED": (Misconfigured, CLUSTER),
    "ASK": (Misconfigured, CLUSTER),
    "CROSSSLOT": (Misconfigured, CLUSTER),
    "CLUSTERDOWN": (Misconfigured, CLUSTER),
    "unknown command": (Misconfigured, "lacks a command that Onefold needs (Redis 6, or Valkey): {reason}"),
    "DB index is out of range": (Misconfigured, "has no database of this number"),
    "READONLY": (Unreachable, "is a replica now, and claims are made at its primary only"),
    "OOM": (
        Unreachable,
        "is full (maxmemory) and takes no more claims: give it memory, or onefold store purge",
    ),
    "MISCONF": (Unreachable, "cannot write to its disk, and takes no claims until it can"),
    "NOREPLICAS": (Unreachable, "has fewer replicas than it wants for a write"),
    "LOADING": (Unreachable, "has just started and is still reading its data"),
    "BUSY": (Unreachable, "is busy with somebody's long script"),
}

_TRUST = "name the file of its authority, as in rediss://host?ca=ca.pem"

_CODES = {
    AuthenticationError: "WRONGPASS",
    NoPermissionError: "NOPERM",
    MovedError: "MOVED",
    AskError: "ASK",
    ClusterDownError: "CLUSTERDOWN",
    ReadOnlyError: "READONLY",
    OutOfMemoryError: "OOM",
    BusyLoadingError: "LOADING",
}
"""The codes that the client takes away from an error's text, by what it makes of them."""


@contextmanager
def unreached(name: str) -> Iterator[None]:
    """Turn the errors of connecting into ours: nothing was asked yet."""
    try:
        yield
    except Unanswered as error:
        raise Unreachable(f"{error}; nothing was asked yet") from None
    except (AuthenticationError, BusyLoadingError, ResponseError) as error:
        raise _refusal(error, name) from None
    except (RedisError, OSError) as error:
        if distrusted := distrust(str(error), _TRUST):
            raise Misconfigured(f"{name} {distrusted}") from None
        raise Unreachable(f"{name} cannot be reached: {_reason(error)}; nothing was asked") from None


@contextmanager
def unanswered(name: str) -> Iterator[None]:
    """Turn the errors of waiting for a reply into ours: what was asked may have been done."""
    try:
        yield
    except (AuthenticationError, BusyLoadingError) as error:
        raise _refusal(error, name) from None
    except (RedisError, OSError) as error:
        raise Unanswered(f"{name} was asked and did not answer: {_reason(error)}") from error


def answered(replies: Sequence[Any], name: str) -> list[Any]:
    """Return replies as they are, or raise the first that is an error: what it was about was not done."""
    error = next((reply for reply in replies if isinstance(reply, ResponseError)), None)
    if error is not None:
        raise _refusal(error, name)
    return list(replies)


def _refusal(error: RedisError, name: str) -> OnefoldError:
    told = f"{_CODES.get(type(error), '')} {error}".replace("WRONGPASS Authentication required", "NOAUTH")
    for code, (kind, sentence) in _SENTENCES.items():
        if re.search(rf"\b{code}\b", told):
            return kind(f"{name} {sentence.format(reason=_reason(error))}")
    return Unreachable(f"{name} refused: {_reason(error)}")


def _reason(error: BaseException) -> str:
    # What follows was sent by us: digests, and perhaps somebody's record.
    told = str(error).partition(", with args beginning with")[0]
    return " ".join(told.split())[:200] or type(error).__name__
