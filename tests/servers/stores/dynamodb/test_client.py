"""The client: nothing is sent twice, a batch is sent together, a failure stops it, credentials are found."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from onefold.core.entry import UNKNOWN, Change, Entry, Seen
from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.key import Key

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

import botocore.session

from onefold.stores.dynamodb import aconnect, connect
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import _MAKING, CONFIG, WIDTH, Link, connected
from onefold.stores.dynamodb.requests import Refusal, Request
from tests.processes.stores.sqlite.neighbours import FORKING
from tests.servers.stores.dynamodb.pretender import CUT, Answer, error, pretender
from tests.waiting import wait_for

FOREIGN = "dynamodb://eu-central-1/ledger?endpoint=http://192.0.2.1:1"
"""An endpoint that is not on this machine; nobody may be asked there."""


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no credentials, wherever the tests run; and ask for retries, which must be of no avail."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ROLE_ARN"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")


def changes(count: int) -> list[Change]:
    names = sorted((Key("charges", n) for n in range(count)), key=lambda key: key.id)
    return [Change(name, None, Entry("held", token="mine", lease=60.0)) for name in names]


def outcome(url: str) -> object:
    """Try one write; return its reply, or what was raised."""
    store = connect(url)
    try:
        [reply] = store.swap(changes(1))
    except OnefoldError as raised:
        return raised
    finally:
        store.close()
    return reply


# ----- no repetition


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(500, "InternalServerError"), UNKNOWN),
        (error(503, "ServiceUnavailable"), UNKNOWN),
        (error(400, "ThrottlingException"), Unreachable),
        (error(400, "ProvisionedThroughputExceededException"), Unreachable),
        (error(400, "RequestLimitExceeded"), Unreachable),
        (error(400, "TransactionConflictException"), Unreachable),
        (Answer(502, b"<html>"), UNKNOWN),
        (Answer(200, b"{"), Seen),
        (Answer(200, b"{}", (("x-amz-crc32", "1"),)), Seen),
        (CUT, UNKNOWN),
    ],
    ids=str,
)
def test_no_write_is_ever_sent_twice(answer, kind):
    with pretender(lambda: answer) as (url, told):
        came = outcome(url)

    assert told.asked["PutItem"] == 1
    if kind is UNKNOWN:
        assert came is UNKNOWN
    else:
        assert isinstance(came, kind)
        assert not isinstance(came, Unanswered)


def test_an_answer_that_cannot_be_read_does_not_pass_for_an_absent_entry():
    with pretender() as (url, _):
        store = connect(url)
        with pytest.raises(Unanswered, match="cannot be read: it lacks Responses"):
            store.get([Key("charges", 1)])
        with pytest.raises(Unanswered, match="cannot be read: it lacks Items"):
            store.scan(None, ("done",), False, None, 10)
        store.close()


def test_the_settings_that_keep_from_repeating_and_from_waiting_for_ever_are_in_force():
    config = connected(address("dynamodb://x1/ledger?endpoint=http://127.0.0.1:1")).meta.config

    assert (config.retries["total_max_attempts"], config.retries["mode"]) == (1, "standard")
    assert (config.connect_timeout, config.read_timeout) == (5, 5)


def test_a_server_that_is_silent_was_asked_and_did_not_answer():
    answer = threading.Event()

    def silent() -> Answer:
        answer.wait()
        return Answer()

    with pretender(silent) as (url, told):
        quick = connected(address(url), CONFIG.merge(type(CONFIG)(read_timeout=0.1)))
        [came] = Link(quick, "it").execute_many([Request("put_item", {"TableName": "ledger", "Item": {}})])
        wait_for(lambda: told.asked["PutItem"] > 0)  # it may hear of it after the client has given up
        answer.set()

    assert isinstance(came, Unanswered)
    assert told.asked["PutItem"] == 1


def test_a_server_that_is_not_there_was_not_asked():
    with pretender() as (url, _):
        pass

    came = outcome(url)

    assert isinstance(came, Unreachable)
    assert not isinstance(came, Unanswered)
    assert "cannot be reached" in str(came)


# ----- batches


def test_as_many_requests_of_a_batch_as_agreed_are_under_way_at_once():
    gate = threading.Barrier(WIDTH, timeout=60)

    def together() -> Answer:
        gate.wait()
        return Answer()

    with pretender(together) as (url, told):
        store = connect(url)
        replies = store.swap(changes(2 * WIDTH))
        store.close()

    assert all(isinstance(reply, Seen) for reply in replies)
    assert told.asked["PutItem"] == 2 * WIDTH


@pytest.mark.parametrize("answer", [CUT, error(400, "ThrottlingException")], ids=["cut", "throttled"])
def test_after_a_failure_the_rest_of_a_batch_is_not_sent(answer):
    with pretender(lambda: answer) as (url, told):
        store = connect(url)
        with suppress(Unreachable):
            assert set(store.swap(changes(500))) == {UNKNOWN}
        store.close()

    assert 1 <= told.asked["PutItem"] <= 4 * WIDTH


def test_what_is_known_of_a_batch_survives_a_failure_in_it():
    answers = iter([Answer(), Answer(), CUT])
    turn = threading.Lock()

    def two_then_none() -> Answer:
        with turn:
            return next(answers, CUT)

    with pretender(two_then_none) as (url, _):
        store = connect(url)
        replies = store.swap(changes(100))
        store.close()

    assert sum(reply is not UNKNOWN for reply in replies) == 2


def test_a_refusal_that_tells_the_item_is_an_answer():
    with pretender(lambda: error(400, "ConditionalCheckFailedException", Item={"id": {"B": "AA=="}})) as (
        url,
        _,
    ):
        link = Link(connected(address(url)), "it")
        [came] = link.execute_many([Request("put_item", {"TableName": "ledger", "Item": {}})])

    assert came == Refusal({"id": {"B": b"\0"}})


def test_threads_that_use_a_new_store_at_once_look_at_the_table_once():
    start = threading.Barrier(8)

    def one() -> None:
        start.wait()
        store.swap(changes(1))

    with pretender() as (url, told):
        store = connect(url)
        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()

    assert told.asked == {"DescribeTable": 1, "PutItem": 8}


# ----- credentials


def test_a_local_server_needs_no_credentials():
    with pretender() as (url, told):
        assert isinstance(outcome(url), Seen)

    assert told.signers == {"local"}


def test_credentials_that_are_there_are_used_for_a_local_server_too(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")

    with pretender() as (url, told):
        assert isinstance(outcome(url), Seen)

    assert told.signers == {"somebody"}


def test_without_credentials_a_sentence_says_what_to_do():
    came = outcome(FOREIGN)

    assert isinstance(came, Misconfigured)
    assert "there are no AWS credentials for the dynamodb table ledger at 192.0.2.1:1" in str(came)
    assert "`aws configure`" in str(came)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [("AWS_PROFILE", "nobody", "nobody"), ("AWS_ACCESS_KEY_ID", "somebody", "secret_access_key")],
)
def test_credentials_that_are_wrong_here_are_told_before_anything_is_asked(
    monkeypatch, variable, value, said
):
    monkeypatch.setenv(variable, value)

    came = outcome(FOREIGN)

    assert isinstance(came, Misconfigured)
    assert "was not asked" in str(came)
    assert said in str(came).lower()


def test_a_store_that_was_misconfigured_looks_again(monkeypatch):
    answers: Iterator[Answer] = iter([error(400, "AccessDeniedException")])

    with pretender(lambda: next(answers, Answer())) as (url, told):
        store = connect(url)
        with pytest.raises(Misconfigured):
            store.swap(changes(1))
        [reply] = store.swap(changes(1))
        store.close()

    assert isinstance(reply, Seen)
    assert told.asked["DescribeTable"] == 2


def test_an_awaited_store_works_in_threads():
    import asyncio

    async def use(url: str) -> object:
        store = aconnect(url)
        [reply] = await store.swap(changes(1))
        await store.close()
        return reply

    with pretender() as (url, _):
        assert isinstance(asyncio.run(use(url)), Seen)


# ----- forks


@pytest.mark.filterwarnings(FORKING)
def test_a_fork_waits_until_no_thread_makes_a_client(monkeypatch: pytest.MonkeyPatch):
    making, go_on = threading.Event(), threading.Event()
    made: list[object] = []
    forked: list[int] = []
    get_session = botocore.session.get_session

    def slowly() -> object:
        making.set()
        go_on.wait()
        return get_session()

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        forked.append(pid)
        os.waitpid(pid, 0)

    monkeypatch.setattr(botocore.session, "get_session", slowly)
    local = address("dynamodb://us-east-1/ledger?endpoint=http://127.0.0.1:1")
    maker = threading.Thread(target=lambda: made.append(connected(local)))
    forker = threading.Thread(target=fork)
    maker.start()
    making.wait()
    forker.start()
    wait_for(lambda: len(_MAKING._queue.calls) == 2)
    assert forked == []

    go_on.set()
    maker.join()
    forker.join()
    assert len(made) == 1
    assert len(forked) == 1
