"""Every refusal of a server becomes one of three errors with a sentence: mend it, wait, or ask again."""

import pytest

from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.drive import run
from onefold.stores.shells import Clients

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

import redis
from redis.connection import DefaultParser

from onefold.stores.redis.address import address
from onefold.stores.redis.errors import answered, unanswered, unreached
from onefold.stores.redis.opening import prepare

IN_A_SCRIPT = "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -"


def as_the_client_reads(reply: str) -> Exception:
    error: Exception = DefaultParser.parse_error(reply)
    return error


@pytest.mark.parametrize(
    ("reply", "kind", "sentence"),
    [
        ("NOAUTH Authentication required.", Misconfigured, "wants a password"),
        (
            "WRONGPASS invalid username-password pair or user is disabled.",
            Misconfigured,
            "refuses the name or pass",
        ),
        (
            "NOPERM User ann has no permissions to run the 'evalsha' command",
            Misconfigured,
            "the 'evalsha' command",
        ),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Misconfigured, "?prefix="),
        (f"{IN_A_SCRIPT}WRONGTYPE Operation against a key", Misconfigured, "?prefix="),
        ("MOVED 3999 127.0.0.1:6381", Misconfigured, "cluster"),
        ("CLUSTERDOWN Hash slot not served", Misconfigured, "cluster"),
        (
            "ERR unknown command 'EVALSHA', with args beginning with: 'secret' ",
            Misconfigured,
            "lacks a command",
        ),
        ("ERR DB index is out of range", Misconfigured, "no database of this number"),
        ("READONLY You can't write against a read only replica.", Unreachable, "is a replica now"),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unreachable, "is full (maxmemory)"),
        (f"{IN_A_SCRIPT}OOM command not allowed when used memory", Unreachable, "is full (maxmemory)"),
        (
            "MISCONF Errors writing to the AOF file: No space left on device",
            Unreachable,
            "cannot write to its disk",
        ),
        ("NOREPLICAS Not enough good replicas to write.", Unreachable, "fewer replicas"),
        ("LOADING Redis is loading the dataset in memory", Unreachable, "still reading its data"),
        ("BUSY Redis is busy running a script.", Unreachable, "long script"),
        ("ERR something that nobody has seen; TASK BUSYNESS", Unreachable, "refused: something that nobody"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_that_nothing_was_done(reply, kind, sentence):
    error = as_the_client_reads(reply)

    for raised in (raised_while(unreached, error), raised_later(error)):
        assert type(raised) is kind
        assert str(raised).startswith("redis at db:1/0 ")
        assert sentence in str(raised)
        assert "secret" not in str(raised)


def raised_later(error):
    """Say what becomes of an error on an open connection; some kinds come as replies, some close it."""
    if not isinstance(error, redis.ResponseError):
        return raised_while(unanswered, error)
    with pytest.raises(Exception, match="redis at") as raised:
        answered([b"1", error, b"2"], "redis at db:1/0")
    return raised.value


def raised_while(context, error):
    try:
        with context("redis at db:1/0"):
            raise error
    except Exception as told:
        return told


@pytest.mark.parametrize(
    "error",
    [redis.ConnectionError("reset"), redis.TimeoutError("slow"), OSError("gone"), redis.InvalidResponse("?")],
)
def test_what_fails_while_connecting_was_not_asked_and_what_fails_later_may_have_been_done(error):
    before, after = raised_while(unreached, error), raised_while(unanswered, error)

    assert type(before) is Unreachable
    assert "nothing was asked" in str(before)
    assert type(after) is Unanswered


def test_a_certificate_that_is_not_trusted_is_mended_by_naming_its_authority():
    told = redis.ConnectionError("Error 1 connecting to db:1. [SSL: CERTIFICATE_VERIFY_FAILED] self-signed")

    assert type(raised_while(unreached, told)) is Misconfigured
    assert "rediss://host?ca=ca.pem" in str(raised_while(unreached, told))


def test_the_first_words_are_part_of_connecting():
    assert type(raised_while(unreached, Unanswered("no answer"))) is Unreachable


class Canned:
    """A server that says what it is told to say."""

    def __init__(self, **told):
        hello = {
            "server": "redis",
            "version": "7.2.4",
            "proto": 2,
            "mode": "standalone",
            "role": "master",
        } | told
        self.hello = [
            part.encode() if isinstance(part, str) else part for pair in hello.items() for part in pair
        ]
        self.layout = b"1"

    def execute_many(self, commands):
        return [self.hello, self.layout][: len(commands)]


@pytest.mark.parametrize(
    ("told", "kind", "sentence"),
    [
        ({"version": "5.0.7"}, Misconfigured, "is version 5.0.7: Onefold needs Redis 6 or later"),
        ({"mode": "cluster"}, Misconfigured, "is a node of a cluster"),
        ({"mode": "sentinel"}, Misconfigured, "is a Sentinel"),
        ({"role": "slave"}, Unreachable, "is a replica"),
        ({"role": "replica"}, Unreachable, "is a replica"),
    ],
)
def test_a_server_that_cannot_hold_a_ledger_is_refused_at_once(told, kind, sentence):
    with pytest.raises(kind) as raised:
        run(prepare(True, address("redis://db")), Clients(Canned(**told)))

    assert sentence in str(raised.value)


def test_a_layout_from_the_future_is_refused():
    server = Canned()
    server.layout = b"2"

    with pytest.raises(Misconfigured, match="newer Onefold \\(layout 2, this one knows 1\\)"):
        run(prepare(True, address("redis://db")), Clients(server))
