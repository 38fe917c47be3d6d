"""What errors of Cassandra and of its driver mean: what may have been done is never taken for not done."""

import pytest

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    ReadFailure,
    ReadTimeout,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
    WriteFailure,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException, ConnectionShutdown
from cassandra.protocol import (
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    ProtocolException,
    ServerError,
    SyntaxException,
)

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.stores.cassandra.address import address
from onefold.stores.cassandra.errors import Full, HalfMade, NoTable, Silent, sorted_out, unreached
from onefold.stores.cassandra.schema import prepare


def unavailable(level: int) -> Unavailable:
    return Unavailable("too few", consistency=level, required_replicas=2, alive_replicas=1)


MEANINGS: list[tuple[Exception, type[OnefoldError], str]] = [
    (OperationTimedOut({}, "h"), Silent, "was asked and did not answer"),
    (WriteTimeout("late", write_type=WriteType.CAS), Unanswered, "did not answer"),
    (WriteFailure("failed", write_type=WriteType.SIMPLE), Unanswered, "did not answer"),
    (ReadTimeout("late"), Unanswered, "did not answer"),
    (ReadFailure("failed"), Unanswered, "tombstones"),
    (ConnectionShutdown("it was closed"), Unanswered, "did not answer"),
    (ConnectionException("it broke"), Unanswered, "did not answer"),
    (OverloadedErrorMessage(0x1001, "much to do", None), Unanswered, "did not answer"),
    (ServerError(0, "a bug", None), Unanswered, "did not answer"),
    (ServerError(0, "java.lang.IllegalArgumentException: Unknown CF 2269", None), HalfMade, "Unknown CF"),
    (ValueError("whatever it is"), Unanswered, "did not answer"),
    (unavailable(ConsistencyLevel.QUORUM), Unanswered, "did not answer"),
    (unavailable(ConsistencyLevel.SERIAL), Unreachable, "too few live replicas: 1 of 2 needed"),
    (IsBootstrappingErrorMessage(0x1002, "soon", None), Unreachable, "is not ready"),
    (NoHostAvailable("none", {}), Unreachable, "cannot be reached"),
    (NoHostAvailable("none", ["127.0.0.1"]), Unreachable, "cannot be reached"),
    (
        NoHostAvailable("none", {"h": ConnectionException("down")}),
        Unreachable,
        "reached: down; nothing was asked",
    ),
    (Unauthorized("User ann has no MODIFY permission"), Misconfigured, "GRANT it"),
    (InvalidRequest("unconfigured table onefold_meta"), NoTable, "has no ledger in it"),
    (InvalidRequest("unconfigured columnfamily onefold_meta"), NoTable, "has no ledger in it"),
    (InvalidRequest("table onefold_meta does not exist"), NoTable, "has no ledger in it"),
    (
        InvalidRequest("Keyspace 'shop' does not exist"),
        Misconfigured,
        "make it with the replication you want",
    ),
    (InvalidRequest("disk usage exceeds failure threshold"), Full, "a disk is full"),
    (InvalidRequest("Undefined name"), Misconfigured, "refuses: Undefined name"),
    (SyntaxException(0x2000, "no viable alternative", None), Misconfigured, "refuses"),
]


@pytest.mark.parametrize(("error", "kind", "words"), MEANINGS, ids=lambda part: str(part)[:40])
def test_an_error_of_a_statement_means(error, kind, words):
    meant = sorted_out(error, "the keyspace")

    assert type(meant) is kind
    assert str(meant).startswith("the keyspace ")
    assert words in str(meant)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            NoHostAvailable("none", {"h": AuthenticationFailed("bad")}),
            Misconfigured,
            "refuses the name or password",
        ),
        (NoHostAvailable("none", {"h": OSError("refused")}), Unreachable, "cannot be reached: refused"),
        (NoHostAvailable("none", {}), Unreachable, "Is it running?"),
        (NoHostAvailable("none", ["127.0.0.1"]), Unreachable, "Is it running?"),
        (OperationTimedOut({}, "h"), Unreachable, "nothing was asked"),
        (UnresolvableContactPoints({}), Unreachable, "cannot be reached"),
        (
            NoHostAvailable(
                "none", {"h": ProtocolException(0xA, "Invalid or unsupported protocol version", None)}
            ),
            Misconfigured,
            "put protocol_version=3 into the URL",
        ),
    ],
)
def test_an_error_of_a_connection_means(error, kind, words):
    meant = unreached(error, "the keyspace")

    assert type(meant) is kind
    assert words in str(meant)


def half_made() -> OnefoldError:
    return sorted_out(ServerError(0, "Unknown CF 2269", None), "the keyspace")


def test_a_table_that_another_is_making_is_made_too():
    flow = prepare(True, address("cassandra://127.0.0.1/shop"))
    asked = flow.send(None)
    then = flow.send(half_made())
    flow.close()

    assert (asked.name, then.name) == ("query", "define")


def test_who_only_looks_is_told_that_a_table_did_not_answer_and_never_that_there_is_none():
    flow = prepare(False, address("cassandra://127.0.0.1/shop"))
    flow.send(None)

    with pytest.raises(HalfMade, match="did not answer"):
        flow.send(half_made())


def test_a_table_that_is_half_made_after_it_was_made_did_not_answer():
    flow = prepare(True, address("cassandra://127.0.0.1/shop"))
    flow.send(None)
    call = flow.send(half_made())
    while call.name == "define":
        call = flow.send([])

    with pytest.raises(HalfMade, match="did not answer"):
        flow.send(half_made())
