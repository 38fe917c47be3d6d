"""What the errors of DynamoDB and of its client mean: sorted once, with a sentence each.

Misconfigured: no repetition mends it. Unreachable: it was not done, and may be done later. Unanswered: it may
have been done. Nothing in here asks a server, and no credential is ever in a sentence.
"""

from __future__ import annotations

import re

from botocore.exceptions import (
    BotoCoreError,
    ChecksumError,
    ClientError,
    ConnectionError,
    EventStreamError,
    HTTPClientError,
    IncompleteReadError,
    SSLError,
)

from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.transport import distrust
from onefold.stores.dynamodb.requests import Refusal


class NoTable(Misconfigured):
    """The table does not exist."""


_WHO = "see who you are with `aws sts get-caller-identity`, or choose another with AWS_PROFILE"
_CAPACITY = "nothing was written; give the table more capacity, or on-demand billing"
_CLOCK = "signatures are refused: check this machine's clock and the credentials; " + _WHO

_SENTENCES: dict[str, tuple[type[OnefoldError], str]] = {
    "ResourceNotFoundException": (
        NoTable,
        "does not exist: `onefold store sql dynamodb:` prints how to make it",
    ),
    "AccessDenied": (Misconfigured, "may not be used like this: {reason}; " + _WHO),
    "UnrecognizedClient": (Misconfigured, "does not know these credentials; " + _WHO),
    "InvalidClientTokenId": (Misconfigured, "does not know these credentials; " + _WHO),
    "ExpiredToken": (Misconfigured, "refuses credentials that have expired: log in again (`aws sso login`)"),
    "MissingAuthenticationToken": (Misconfigured, "wants credentials; " + _WHO),
    "OptInRequired": (Misconfigured, "is in a region that this account has not enabled"),
    "InvalidSignature": (Misconfigured, _CLOCK),
    "IncompleteSignature": (Misconfigured, _CLOCK),
    "SignatureDoesNotMatch": (Misconfigured, _CLOCK),
    "Validation": (Misconfigured, "refuses: {reason}"),
    "Serialization": (Misconfigured, "refuses: {reason}"),
    "ProvisionedThroughputExceeded": (Unreachable, "is throttled; " + _CAPACITY),
    "RequestLimitExceeded": (Unreachable, "is throttled, as is the whole account; " + _CAPACITY),
    "Throttling": (Unreachable, "is throttled; " + _CAPACITY),
    "LimitExceeded": (Unreachable, "cannot be made or changed now: {reason}"),
    "ResourceInUse": (Unreachable, "is being made or changed: {reason}"),
    "TransactionConflict": (Locked, "has a transaction on the item; nothing was written"),
    "ReplicatedWriteConflict": (Locked, "has a write on the item in another region; nothing was written"),
}
"""What an error code means, by its beginning. Whatever the server says of itself (5xx) may have been done."""


def sorted_out(error: Exception, name: str) -> Refusal | OnefoldError:
    """Say in our words what went wrong, or that a condition did not hold."""
    if isinstance(error, ClientError) and not isinstance(error, EventStreamError):
        return _from_server(error, name)
    reason = _words(str(error)) or type(error).__name__
    if isinstance(error, SSLError) and (wrong := distrust(reason, "name its authority in AWS_CA_BUNDLE")):
        return Misconfigured(f"{name} {wrong}")
    if isinstance(error, ConnectionError) and not isinstance(error, SSLError):
        return Unreachable(
            f"{name} cannot be reached: {reason}; nothing was asked. Is this its region and endpoint?"
        )
    if isinstance(error, BotoCoreError) and not isinstance(error, _AFTER_ASKING):
        # Raised by the client before it sent anything: no credentials, no such profile, and the like.
        return Misconfigured(f"{name} was not asked: {reason}; {_WHO}")
    return Unanswered(f"{name} was asked and did not answer: {reason}")


_AFTER_ASKING = (HTTPClientError, SSLError, ChecksumError, IncompleteReadError)
"""Errors of the client at which the server may have done what it was asked."""


def _from_server(error: ClientError, name: str) -> Refusal | OnefoldError:
    told = error.response.get("Error", {})
    code, reason = str(told.get("Code", "")), _words(str(told.get("Message", "")))
    if code == "ConditionalCheckFailedException":
        return Refusal(error.response.get("Item"))
    if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500) >= 500:
        return Unanswered(f"{name} was asked and failed: {code} {reason}")
    for start, (kind, sentence) in _SENTENCES.items():
        if code.startswith(start):
            return kind(f"{name} {sentence.format(reason=reason)}")
    return Unreachable(f"{name} refused: {code} {reason}; nothing was written")


def _words(text: str) -> str:
    # Messages quote key ids and ARNs; who reads a log need not know them.
    text = re.sub(r"\b(AKIA|ASIA)[A-Z0-9]{8,}", r"\1***", text)
    return " ".join(text.split())[:300].rstrip(".")
