"""A Redis that is down, silent, full or refusing: what is said, what is known, and that it comes back."""

import asyncio
import threading
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from onefold import Ledger
from onefold.core.entry import NOTHING, UNKNOWN, Change
from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.core.key import Key
from onefold.testing.contract.words import entry

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from tests.launchers.fixtures import launched
from tests.launchers.server import Launched, free_port
from tests.servers.stores.redis.ledgers import Server
from tests.servers.stores.words import NEW, claimed_until_killed, claims, keys, stopped, stored, tokens

pytestmark = pytest.mark.store("redis")

HASTY = "?timeout=2"
"""Silence is not waited for long; a busy machine must still answer in time what it is asked otherwise."""


@pytest.fixture
def own(own_server) -> Launched:
    """Start a server that this test may end."""
    return launched(own_server, "redis")


@pytest.fixture
def store(redis_url):
    with closing(connect(redis_url)) as store:
        yield store


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.hostname}:{parts.port}").geturl()


# ----- down


def test_a_server_that_is_not_there_is_told_with_its_name_and_nothing_runs():
    port = free_port()
    ledger = Ledger(f"redis://ann:hidden@127.0.0.1:{port}/3")
    ran = []

    with pytest.raises(Unreachable) as raised:
        ledger.call(NEW, lambda: ran.append(1))

    assert str(raised.value).startswith(f"redis at 127.0.0.1:{port}/3 cannot be reached: ")
    assert "nothing was asked" in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert ran == []


def test_a_server_that_is_not_there_is_told_awaited():
    async def main():
        with pytest.raises(Unreachable, match=r"cannot be reached.*nothing was asked"):
            await aconnect(f"redis://127.0.0.1:{free_port()}").get([NEW])

    asyncio.run(main())


def test_a_server_that_comes_back_is_used_again_and_knows_what_it_acknowledged(own):
    store = connect(own.url)
    kept = [stored(reply) for reply in store.swap(claims(keys(20)))]
    own.stop()
    with pytest.raises(Unreachable):
        store.get([NEW])
    own.restart()

    assert [stored(seen) for seen in store.get(keys(20))] == kept
    store.close()


def test_a_server_that_was_restarted_between_two_calls_is_not_noticed(own):
    store = connect(own.url)
    first = stored(store.swap(claims([NEW]))[0])
    own.kill()
    own.restart()
    [renewed] = store.swap([Change(NEW, first.version, entry("held", "ann"))])

    assert stored(renewed).version == first.version + 1
    store.close()


def test_neither_is_it_noticed_awaited(own):
    async def main():
        store = aconnect(own.url)
        first = stored((await store.swap(claims([NEW])))[0])
        await asyncio.to_thread(own.kill)
        await asyncio.to_thread(own.restart)
        [renewed] = await store.swap([Change(NEW, first.version, entry("held", "ann"))])

        assert stored(renewed).version == first.version + 1
        await store.close()

    asyncio.run(main())


def test_no_acknowledged_claim_is_lost_when_the_server_is_killed_again_and_again(own):
    """In the middle of batches, with `appendfsync always`.

    `everysec` promises less: while a sync is running, the server replies before it has written.
    """
    store = connect(own.url)
    told: dict[Key, int] = {}
    for turn in range(4):
        with Server(own.url) as server:
            server.config_set("appendfsync", "always")
        told |= claimed_until_killed(own, store, turn)
        own.restart()

    found = {
        key: seen.entry.version for key, seen in zip(told, store.get([*told]), strict=True) if seen.entry
    }
    assert len(told) >= 4 * 4 * 30
    assert found == told
    store.close()


# ----- silent


def test_what_was_not_answered_is_unknown_and_is_found_when_the_same_token_asks_again(own):
    store = connect(f"{own.url}{HASTY}")
    store.get([NEW])
    with stopped(own):
        assert store.swap(claims([NEW])) == [UNKNOWN]
    [again] = store.swap(claims([NEW]))

    assert stored(again).token == "ann"
    [other] = store.swap(claims([NEW], "bob"))
    assert stored(other) == stored(again), "it was written once"
    store.close()


def test_what_was_not_answered_is_unknown_awaited(own):
    async def main():
        store = aconnect(f"{own.url}{HASTY}")
        await store.get([NEW])
        with stopped(own):
            assert await store.swap(claims([NEW])) == [UNKNOWN]
        assert tokens(await store.swap(claims([NEW]))) == ["ann"]
        await store.close()

    asyncio.run(main())


def test_a_look_that_is_not_answered_says_so(own):
    store = connect(f"{own.url}{HASTY}")
    store.get([NEW])
    with stopped(own), pytest.raises(Unanswered, match="was asked and did not answer: Timeout"):
        store.get([NEW])
    assert store.get([NEW]) == [NOTHING], "a late answer is not taken for the next one"
    store.close()


def test_a_server_that_accepts_and_says_nothing_was_not_asked(own):
    store = connect(f"{own.url}{HASTY}")
    with stopped(own), pytest.raises(Unreachable) as raised:
        store.swap(claims([NEW]))

    assert not isinstance(raised.value, Unanswered)
    assert store.get([NEW]) == [NOTHING]
    store.close()


def test_an_effect_is_not_started_while_the_server_is_silent_and_runs_once_afterwards(own):
    ledger = Ledger(f"{own.url}{HASTY}")
    ledger.look(NEW)
    ran = []
    with stopped(own), pytest.raises(Unreachable):
        ledger.call(NEW, lambda: ran.append(1))
    assert ran == []
    ledger.call(NEW, lambda: ran.append(2), wait=5.0)
    ledger.call(NEW, lambda: ran.append(3), wait=5.0)

    assert ran == [2]
    ledger.close()


# ----- refusing


@pytest.mark.parametrize("wrong", [":wrong@", "ann:wrong@", ""])
def test_a_wrong_or_missing_password_is_told_without_repeating_it(redis_url, wrong):
    if not urlsplit(redis_url).password:
        pytest.skip("REDIS_URL names a server without a password")
    plain = urlsplit(without_password(redis_url))
    store = connect(plain._replace(netloc=wrong + plain.netloc).geturl())

    with pytest.raises(Misconfigured) as raised:
        store.get([NEW])

    assert "password" in str(raised.value)
    assert "wrong" not in str(raised.value)
    assert "only-for-tests" not in str(raised.value)


def test_a_database_that_does_not_exist_is_told(redis_url):
    store = connect(urlsplit(redis_url)._replace(path="/99999").geturl())

    with pytest.raises(Misconfigured, match="has no database of this number"):
        store.get([NEW])


def test_a_ledger_that_was_never_made_is_not_made_by_those_who_only_look(redis_url):
    with pytest.raises(
        Misconfigured, match="has no ledger under the prefix 'onefold': nothing was ever claimed"
    ):
        connect(redis_url, create=False).get([NEW])
    with Server(redis_url) as server:
        assert server.keys("{*") == []
    with closing(connect(redis_url)) as maker:
        assert maker.get([NEW]) == [NOTHING]
    with closing(connect(redis_url, create=False)) as looker:
        assert looker.get([NEW]) == [NOTHING]


def test_a_user_who_may_not_run_scripts_is_told_which_right_is_missing(own):
    with Server(own.url) as server:
        server.acl_setuser(
            "bob", enabled=True, nopass=True, categories=["+@all"], commands=["-eval", "-evalsha"], keys=["*"]
        )
    parts = urlsplit(own.url)
    store = connect(parts._replace(netloc=f"bob:x@{parts.hostname}:{parts.port}").geturl())

    with pytest.raises(Misconfigured, match=r"does not let this user do it .*'evalsha'"):
        store.swap(claims([NEW]))
    store.close()


def test_a_replica_takes_no_claims_and_shows_none(own, own_server):
    other = own_server("redis")
    store = connect(own.url)
    store.swap(claims([NEW]))
    with Server(own.url) as server:
        server.replicaof("127.0.0.1", urlsplit(other.url).port)
        with pytest.raises(Unreachable, match="is a replica"):
            store.swap(claims(keys(1)))
        with pytest.raises(Unreachable, match="is a replica"):
            store.get([NEW])
        server.replicaof("no", "one")
    assert len(tokens(store.swap(claims(keys(1))))) == 1
    store.close()


def test_a_full_server_takes_no_new_claims_and_lets_those_that_run_end(own):
    store = connect(own.url)
    held, renewed, freed = (stored(reply) for reply in store.swap(claims(keys(3))))
    one, two, three = keys(3)
    with Server(own.url) as server:
        server.config_set("maxmemory", 1)
        with pytest.raises(Unreachable, match="is full \\(maxmemory\\) and takes no more claims"):
            store.swap(claims([NEW]))
        assert store.get([NEW]) == [NOTHING]
        replies = store.swap(
            [
                Change(one, held.version, entry("done")),
                Change(two, renewed.version, entry("held")),
                Change(three, freed.version, entry("free")),
            ]
        )
        assert [stored(reply).state for reply in replies] == ["done", "held", "free"]
        assert [len(store.scan(None, (state,), False, None, 9)[0]) for state in ("held", "free")] == [1, 1]
        server.config_set("maxmemory", 0)
    assert tokens(store.swap(claims([NEW]))) == ["ann"]
    store.close()


def test_what_others_keep_under_the_prefix_is_told_and_left_alone(redis_url, store):
    store.get([NEW])
    with Server(redis_url) as server:
        server.set("{onefold}:open:held:orders", "somebody's")
        with pytest.raises(Misconfigured, match="something else under this prefix"):
            store.swap(claims([NEW]))
        assert server.get("{onefold}:open:held:orders") == "somebody's"
    assert store.get([NEW]) == [NOTHING]


def test_an_error_that_is_not_the_connections_does_not_break_the_next_call(redis_url, store):
    store.get([NEW])
    with Server(redis_url) as server:
        server.set("{onefold}:open:held:bad", "x")
    for _ in range(3):
        with pytest.raises(OnefoldError):
            store.swap(claims([*keys(60), *keys(60, "bad"), *keys(60, "more")]))
        assert tokens(store.swap(claims([NEW]))) == ["ann"]


# ----- forgetful


def test_a_server_that_forgot_the_scripts_is_told_them_again(redis_url, store):
    with Server(redis_url) as server:
        for turn in range(3):
            server.script_flush()
            assert tokens(store.swap(claims(keys(120, f"turn {turn}")))) == ["ann"] * 120
            server.script_flush()
            assert tokens(store.get(keys(120, f"turn {turn}"))) == ["ann"] * 120
            assert server.script_flush()
            assert len(store.scan(f"turn {turn}", ("held",), False, None, 500)[0]) == 120


def test_scripts_that_are_forgotten_all_the_time_lose_and_double_nothing(redis_url, store):
    enough = threading.Event()

    def forget() -> None:
        with Server(redis_url) as server:
            while not enough.is_set():
                server.script_flush()

    forgetful = threading.Thread(target=forget)
    forgetful.start()
    try:
        first = [stored(reply) for turn in range(10) for reply in store.swap(claims(keys(150, f"{turn}")))]
        again = [
            stored(reply) for turn in range(10) for reply in store.swap(claims(keys(150, f"{turn}"), "bob"))
        ]
    finally:
        enough.set()
        forgetful.join()

    assert first == again
    assert {kept.token for kept in first} == {"ann"}
