"""What MariaDB said, in our words, sorted by what is known: not asked, refused, not done, or unanswered.

Sentences name the server without its secrets, give the server's own reason, and say what to do. They must
not quote what was stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.transport import distrust

LOCK_WAIT, DEADLOCK, NO_SAVEPOINT, NO_TLS = 1205, 1213, 1305, 2026

_SHOW = "`onefold store sql mariadb:`"
_USER = "check the user and password in the store's URL"
_GRANT = (
    f"let its owner create what {_SHOW} prints, and grant this user SELECT, INSERT, UPDATE and DELETE on it"
)
_TRUST = "name the file of the server's authority, as in mariadb://host/database?ca=ca.pem"
_TABLES = f"the ledger's tables are missing or not Onefold's own: see {_SHOW}"

_ADVICE = {
    1044: "create the database and grant this user rights on it, or name another in the store's URL",
    1045: _USER,
    1049: "create the database, or name another in the store's URL",
    1054: _TABLES,
    1064: "this server is too old: MariaDB 10.6 is needed, or later",
    1130: "let the user connect from this host",
    1136: _TABLES,
    1142: _GRANT,
    1143: _GRANT,
    1146: _TABLES,
    1153: "raise max_allowed_packet to 16M, which is the server's default",
    1286: "the ledger's tables need the engine InnoDB",
    1356: _TABLES,
    1665: "set binlog_format to MIXED or ROW",
    1698: _USER,
    1932: _TABLES,
    NO_TLS: "turn TLS on in the server, or leave ca, cert and key out of the store's URL",
}
"""What to do about refusals that no repetition mends, by the server's number."""

_LATER = {
    1021: "its disk is full: make room",
    1026: "it cannot write to its disk: is it full?",
    1040: "it has as many connections as it takes: raise max_connections",
    1047: "this node has left its Galera cluster, or is still joining it",
    1114: "its table space is full: make room, or onefold store purge",
    1203: "this user has as many connections as it may",
    DEADLOCK: "it met another transaction",
    1290: "it is a replica or set to read-only: name the primary",
    1412: "the ledger's tables were made after the transaction began: roll back and start again",
    1317: "somebody interrupted it",
    1836: "it is a replica or set to read-only: name the primary",
    1969: "it took longer than max_statement_time",
}
"""What is the matter where a repetition may do. Nothing was written."""

_GONE = frozenset((1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927))
"""Numbers with which a server ends a connection, rather than a statement."""


@contextmanager
def connecting(name: str) -> Iterator[None]:
    """Turn the errors of connecting into ours: nothing was asked yet."""
    try:
        yield
    except (pymysql.MySQLError, OSError) as error:
        number, reason = number_of(error), _reason(error)
        if distrusted := distrust(reason, _TRUST):
            raise Misconfigured(f"{name} {distrusted}") from None
        if advice := _ADVICE.get(number):
            raise Misconfigured(f"{name} refuses the connection: {reason}; {advice}") from None
        matter = _LATER.get(number, "Is it running, and is this its address?")
        raise Unreachable(f"{name} cannot be reached: {reason}; nothing was asked. {matter}") from None
    except RuntimeError as error:  # a library that a way to log in needs is missing
        raise Misconfigured(f"{name} cannot be logged in to: {_words(str(error))}") from None


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Turn the errors of asking into ours."""
    try:
        yield
    except (pymysql.MySQLError, OSError) as error:
        raise _ours(error, name) from error


def number_of(error: BaseException) -> int:
    """Return the server's number for an error; 0 if it is the network's."""
    first = error.args[0] if error.args and isinstance(error, pymysql.MySQLError) else 0
    return first if isinstance(first, int) else 0


def is_definite(error: BaseException) -> bool:
    """Say whether the server answered with this error; numbers from 2000 on are the client's own."""
    number = number_of(error)
    return number >= 1000 and not 2000 <= number < 3000 and number not in _GONE


def _ours(error: BaseException, name: str) -> OnefoldError:
    number, reason = number_of(error), _reason(error)
    if not is_definite(error):
        return Unanswered(f"{name} was asked and did not answer: {reason}")
    if number == LOCK_WAIT:
        return Locked(f"{name}: another transaction holds what is asked for; nothing was written")
    if advice := _ADVICE.get(number):
        return Misconfigured(f"{name} refuses: {reason}; {advice}")
    matter = _LATER.get(number, f"error {number}")
    return Unreachable(f"{name} could not do it, and nothing was written: {reason}; {matter}")


def _reason(error: BaseException) -> str:
    """Say what an error says; the awaited client keeps the network's own words for the cause."""
    told = str(error.args[-1]) if error.args else ""
    cause = error.__cause__
    if isinstance(cause, TimeoutError):
        return f"{_words(told)} (timed out)"
    return f"{_words(told)} ({_words(str(cause))})" if cause and str(cause) not in told else _words(told)


def _words(text: str) -> str:
    # What follows was sent by us: digests, and perhaps somebody's record.
    text = re.split(r" near '|value: '", text)[0]
    return " ".join(text.split())[:200].rstrip(".") or "no reason given"
