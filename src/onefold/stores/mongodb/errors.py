"""What the errors of MongoDB and of its driver mean: sorted once, with a sentence each.

Misconfigured: no repetition mends it. Unreachable: it was not done, and may be done later. Unanswered: it may
have been done. Nothing in here asks a server, and no secret is ever in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bson.errors import BSONError
from pymongo.errors import (
    AutoReconnect,
    ConfigurationError,
    DocumentTooLarge,
    DuplicateKeyError,
    InvalidOperation,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.transport import distrust
from onefold.stores.mongodb.documents import Taken

DUPLICATE = 11000

_USER = "check the user, password and authSource in the store's URL"
_MADE = "let its owner create what `onefold store sql mongodb:` prints"

_SENTENCES: dict[tuple[int, ...], tuple[type[OnefoldError], str]] = {
    (18, 11, 8000): (Misconfigured, "refuses the connection: {reason}; " + _USER),
    (13,): (Misconfigured, "does not let this user do it: {reason}; " + _MADE),
    (59, 115): (Misconfigured, "lacks a command that Onefold needs (MongoDB 4.4): {reason}"),
    (85, 86): (Misconfigured, "has another index of ours: {reason}; drop it, it is then made anew"),
    (166, 167): (Misconfigured, "has something else under our names: {reason}; name another database"),
    (121,): (Misconfigured, "refuses the entry, because somebody set rules for it: {reason}"),
    (2, 9, 14, 17, 72): (Misconfigured, "refuses: {reason}"),
    (10107, 13435, 13436): (Unreachable, "is not the primary, or not any more; nothing was written"),
    (14031,): (Unreachable, "has a full disk, and takes no claims: make room, or onefold store purge"),
    (24, 46, 112): (Locked, "has another writer on the entry; nothing was written"),
}
"""What a refusal means, by its code. At any other, what was asked may have been done, in part at least."""


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Turn the errors of asking into ours."""
    try:
        yield
    except DuplicateKeyError:
        raise Taken(f"{name} has it by now") from None
    except UnicodeError:
        raise Misconfigured(f"{name} cannot store a text with a lone surrogate; nothing was asked") from None
    except (BSONError, DocumentTooLarge, OverflowError) as error:
        raise Misconfigured(f"{name} cannot store it: {_words(error)}; nothing was asked") from None
    except PyMongoError as error:
        # The driver's errors carry what was asked and answered; only our words go on.
        raise _ours(error, name) from None


@contextmanager
def unreached(name: str) -> Iterator[None]:
    """Whatever breaks while a connection is made ready, nothing was asked yet."""
    try:
        yield
    except Unanswered as error:
        reason = str(error).rpartition("did not answer: ")[2]
        raise Unreachable(f"{name} cannot be reached: {reason}; nothing was asked") from None


def answered(reply: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a reply, or raise what a part of it failed with. A lost race for a new key is no failure."""
    if told := reply.get("writeConcernError"):
        reason = _words(told.get("errmsg"))
        raise Unanswered(f"{name} has it, but it is not as safe as was asked for: {reason}")
    failed = [error for error in reply.get("writeErrors", ()) if error.get("code") != DUPLICATE]
    if not failed:
        return reply
    error = _refusal(failed[0].get("code"), _words(failed[0].get("errmsg")), name)
    if isinstance(error, Misconfigured):
        raise error
    raise Unanswered(f"{name} did a part of what was asked only: {error}")


def _ours(error: PyMongoError, name: str) -> OnefoldError:
    reason = _words(error)
    if distrusted := distrust(str(error), "name the file of its authority with tlsCAFile="):
        return Misconfigured(f"{name} {distrusted}")
    if isinstance(error, NotPrimaryError | OperationFailure):
        return _refusal(_code(error), reason, name)
    if isinstance(error, ConfigurationError):
        return Misconfigured(f"{name} cannot be used like this: {reason}")
    if _unsent(error):
        return Unreachable(
            f"{name} cannot be reached: {reason}; nothing was asked. Is it running, and is this its address?"
        )
    return Unanswered(f"{name} was asked and did not answer: {reason}")


def _unsent(error: PyMongoError) -> bool:
    """Say whether a command certainly never left: no server, no connection, or no client any more."""
    if isinstance(error, ServerSelectionTimeoutError | WaitQueueTimeoutError | InvalidOperation):
        return True
    return isinstance(error, AutoReconnect) and isinstance(error.__cause__, ConnectionRefusedError)


def _code(error: NotPrimaryError | OperationFailure) -> int | None:
    return error.details.get("code") if isinstance(error.details, Mapping) else None


def _refusal(code: int | None, reason: str, name: str) -> OnefoldError:
    for codes, (kind, sentence) in _SENTENCES.items():
        if code in codes:
            return kind(f"{name} {sentence.format(reason=reason)}")
    return Unanswered(f"{name} was asked and failed: {reason} (code {code})")


def _words(told: object) -> str:
    # What follows is for the driver's authors: times, and what the server was asked or said in full.
    text = re.split(r", full error:|\(configured timeouts:|, Timeout: ", str(told))[0]
    return " ".join(text.split())[:200].rstrip(" .,;") or "no reason given"
