"""What PostgreSQL said, in our words, sorted by what is known: not asked, refused, not done, or unanswered.

Sentences name the server without its secrets, give the server's own reason, and say what to do. They must
not quote what was stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg

from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.transport import distrust
from onefold.stores.postgresql.plan import Statement

_ADVICE = {
    "0A": "this server is too old, or not PostgreSQL",
    "22": "the database's encoding cannot hold it: use a database in UTF8",
    "28": "check the user and password in the store's URL",
    "3D": "create the database, or name another in the store's URL",
    "3F": "create the schema, or name another in search_path",
    "42501": "let its owner create what `onefold store sql postgresql:` prints, and grant this user "
    "SELECT, INSERT, UPDATE and DELETE on it",
    "42": "the ledger's tables are missing or not Onefold's own: see `onefold store sql postgresql:`",
}
"""What to do about refusals that no repetition mends, by the beginning of their SQLSTATE."""

_LATER = {
    "25006": "it is a replica or set to read-only: name the primary, or all hosts and "
    "target_session_attrs=read-write",
    "40": "it met another transaction",
    "53100": "its disk is full: make room",
    "53200": "it is out of memory",
    "57014": "it took longer than statement_timeout",
}
"""What is the matter where a repetition may do, by the beginning of the SQLSTATE. Nothing was written."""

_WHILE_CONNECTING = (
    (re.compile(r"authentication failed|no password supplied|pg_hba\.conf|role .* does not exist"), "28"),
    (re.compile(r"database .* does not exist|permission denied for database"), "3D"),
)
"""Refusals of a connection have no SQLSTATE; words in them tell the most common ones."""

_TRUST = "name the file of its authority with sslrootcert=, as in postgresql://host/db?sslrootcert=ca.pem"

_GONE = ("08", "57P")
"""SQLSTATE of a connection that ended: what was asked may have been done."""


@contextmanager
def connecting(name: str) -> Iterator[None]:
    """Turn the errors of connecting into ours: nothing was asked yet."""
    try:
        yield
    except psycopg.Error as error:
        reason = _words(str(error).rpartition("FATAL:")[2])
        if distrusted := distrust(str(error), _TRUST):
            raise Misconfigured(f"{name} {distrusted}") from None
        for words, state in _WHILE_CONNECTING:
            if words.search(reason):
                raise Misconfigured(f"{name} refuses the connection: {reason}; {_ADVICE[state]}") from None
        raise Unreachable(
            f"{name} cannot be reached: {reason}; nothing was asked. Is it running, and is this its address?"
        ) from None


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Turn the errors of asking into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _ours(error, name) from error


def sendable(statements: Iterable[Statement]) -> None:
    """Refuse texts that the driver would refuse, before half of a pipeline has left."""
    for _, args in statements:
        for text in args:
            if isinstance(text, str) and not _is_text(text):
                raise Misconfigured(
                    "PostgreSQL cannot store a text with a NUL or a lone surrogate in it; nothing was asked"
                )


def _is_text(text: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in text


def _ours(error: psycopg.Error, name: str) -> OnefoldError:
    state, reason = error.sqlstate or "", _words(error.diag.message_primary or str(error))
    if not state or state.startswith(_GONE) or error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
        return Unanswered(f"{name} was asked and did not answer: {reason}")
    if state == "55P03":
        return Locked(f"{name}: another transaction holds what is asked for; nothing was written")
    if advice := _match(_ADVICE, state):
        return Misconfigured(f"{name} refuses: {reason}; {advice}")
    matter = _match(_LATER, state) or f"SQLSTATE {state}"
    return Unreachable(f"{name} could not do it, and nothing was written: {reason}; {matter}")


def _match(advice: dict[str, str], state: str) -> str:
    return next((words for start, words in advice.items() if state.startswith(start)), "")


def _words(text: str) -> str:
    return " ".join(text.split())[:200].rstrip(".") or "no reason given"
