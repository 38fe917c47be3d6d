"""What the errors of Cassandra and of its driver mean: sorted once, with a sentence each.

Misconfigured: no repetition mends it. Unreachable: it was not done, and may be done later. Unanswered: it may
have been done, as after every time-out of a lightweight transaction. Nothing in here asks a server, and no
secret is ever in a sentence.
"""

from __future__ import annotations

import re

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    OperationTimedOut,
    ReadFailure,
    RequestValidationException,
    Unauthorized,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ProtocolError, ProtocolVersionUnsupported
from cassandra.protocol import (
    BadCredentials,
    IsBootstrappingErrorMessage,
    ProtocolException,
    SyntaxException,
)

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable


class NoTable(Misconfigured):
    """A table does not exist."""


class Full(Unreachable):
    """A disk is full. Cassandra 5.0 then refuses plain writes, and goes on with lightweight transactions."""


class Silent(Unanswered):
    """Nothing was heard for as long as we wait: its connection may be dead without knowing it."""


class HalfMade(Unanswered):
    """The server knows of the table, but another is making it at this moment."""


_SERIAL = (ConsistencyLevel.SERIAL, ConsistencyLevel.LOCAL_SERIAL)

_REFUSED = [
    (
        r"unconfigured (table|columnfamily)|table .* does not exist",
        NoTable,
        "has no ledger in it: a worker makes it when it first uses it",
    ),
    (
        r"keyspace .* does not exist",
        Misconfigured,
        "does not exist: make it with the replication you want, as `onefold store sql cassandra:` shows",
    ),
    (
        r"disk usage",
        Full,
        "takes no more open entries because a disk is full: {reason}; make room or add nodes",
    ),
]  # fmt: skip
"""What a refusal means, by a part of its text: the server gives all of them one code."""


def sorted_out(error: Exception, name: str) -> OnefoldError:
    """Say in our words what became of a statement."""
    reason = words(error)
    if isinstance(error, Unauthorized):
        return Misconfigured(f"{name} does not let this user do it: {reason}; GRANT it, or name another user")
    if isinstance(error, RequestValidationException | SyntaxException):
        return _refused(reason, name)
    if isinstance(error, NoHostAvailable):
        # The driver found no connection to send by; what it sent and lost has an error of its own.
        return Unreachable(f"{name} cannot be reached: {reason}; nothing was asked")
    if isinstance(error, IsBootstrappingErrorMessage):
        return Unreachable(f"{name} is not ready: {reason}; nothing was written")
    if isinstance(error, Unavailable) and error.consistency in _SERIAL:
        # Too few replicas to begin to agree. The same words at another level come after they agreed.
        return Unreachable(
            f"{name} has too few live replicas: {error.alive_replicas} of {error.required_replicas} needed; "
            "nothing was written: start the nodes that are down"
        )
    if isinstance(error, OperationTimedOut):
        return Silent(f"{name} was asked and did not answer: {reason}")
    if isinstance(error, ReadFailure):
        return Unanswered(
            f"{name} could not read what was asked for: {reason}; "
            "`onefold doctor` says whether there are too many tombstones"
        )
    kind = HalfMade if "Unknown CF" in reason else Unanswered
    return kind(f"{name} was asked and did not answer: {reason}")


def _refused(reason: str, name: str) -> OnefoldError:
    for pattern, kind, sentence in _REFUSED:
        if re.search(pattern, reason, re.IGNORECASE):
            return kind(f"{name} {sentence.format(reason=reason)}")
    return Misconfigured(f"{name} refuses: {reason}")


def unreached(error: Exception, name: str) -> OnefoldError:
    """Say in our words why there is no connection."""
    causes = _causes(error)
    reason = words(causes[0])
    if any(isinstance(cause, AuthenticationFailed | BadCredentials) for cause in causes):
        return Misconfigured(f"{name} refuses the name or password in the URL: {reason}")
    if any(isinstance(cause, _OTHER_PROTOCOL) for cause in causes):
        return Misconfigured(
            f"{name} does not speak this version of the protocol: {reason}; "
            "put protocol_version=3 into the URL for a Cassandra before 2.2, or 5"
        )
    return Unreachable(f"{name} cannot be reached: {reason}; nothing was asked. Is it running?")


_OTHER_PROTOCOL = (ProtocolException, ProtocolError, ProtocolVersionUnsupported)


def _causes(error: Exception) -> list[Exception]:
    """Return what went wrong with each host; the driver tells it, or names the hosts only."""
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) and error.errors:
        return list(error.errors.values())
    return [error]


def words(error: Exception) -> str:
    """Return what an error says, in one line."""
    error = _causes(error)[0]
    told = str(getattr(error, "message", None) or error or type(error).__name__)
    quoted = re.search(r'message="(.*)"', told, re.DOTALL)
    return " ".join((quoted[1] if quoted else told).split())[:300].rstrip(".")
