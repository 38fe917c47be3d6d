"""A Cassandra that is down, silent, killed or not as it should be: what is said, and that it comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from onefold import Ledger, Terms
from onefold.core.entry import NOTHING, UNKNOWN, Change
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key
from onefold.testing.contract.words import entry
from tests.launchers.cassandra import session
from tests.launchers.cassandra_guarded import LockedCassandra, as_user
from tests.launchers.fixtures import lent, ours
from tests.launchers.server import Launched, Missing, Server, free_port, running

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores.cassandra import aconnect, connect
from tests.servers.stores.words import (
    NEW,
    claimed_until_killed,
    claims,
    keys,
    stopped,
    stored,
    tokens,
    with_option,
)

pytestmark = pytest.mark.store("cassandra")
restarting = pytest.mark.timeout(600)
"""A Cassandra takes twenty seconds to start, and more on a busy machine."""

HASTY = "timeout=3"
"""Silence is not waited for long; a busy machine must still answer what it is asked to make ready."""

SHORT: dict[str, Any] = {"effect": "idempotent", "terms": Terms(lease=2)}
"""What was asked of a silent server may have been done: then its lease has to end first."""


@pytest.fixture(scope="module")
def own() -> Iterator[Launched]:
    """A server that these tests may end, and start again; one that wants a password, where it can be had."""
    with ExitStack() as stack:
        server: Server
        try:
            server = stack.enter_context(running(LockedCassandra()))
        except Missing:
            server = stack.enter_context(lent("cassandra"))
        yield ours(server)


@pytest.fixture
def place(own: Launched) -> Iterator[str]:
    with own.place() as url:
        with closing(connect(with_option(url, "timeout=60"))) as store:
            store.get([NEW])
        yield url


# ----- down


def test_a_server_that_is_not_there_is_told_with_its_name_and_nothing_runs():
    port = free_port()
    ledger = Ledger(f"cassandra://ann:hidden@127.0.0.1:{port}/shop")
    ran: list[int] = []

    with pytest.raises(Unreachable) as raised:
        ledger.call(NEW, lambda: ran.append(1))

    assert str(raised.value).startswith(
        f"the cassandra keyspace shop at 127.0.0.1:{port} cannot be reached: "
    )
    assert "nothing was asked" in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert ran == []


def test_a_host_whose_name_nobody_knows_is_told():
    with pytest.raises(Unreachable, match=r"cannot be reached.*nothing was asked"):
        connect("cassandra://no-such-host.invalid/shop").get([NEW])


def test_a_server_that_is_not_there_is_told_awaited():
    async def main():
        with pytest.raises(Unreachable, match=r"cannot be reached.*nothing was asked"):
            await aconnect(f"cassandra://127.0.0.1:{free_port()}/shop").get([NEW])

    asyncio.run(main())


@restarting
@pytest.mark.slow  # such a server needs half a minute to come back
def test_a_server_that_comes_back_is_used_again_and_knows_what_it_acknowledged(own, place):
    with closing(connect(place)) as store:
        kept = [stored(reply) for reply in store.swap(claims(keys(20)))]
        own.kill()
        with pytest.raises(Unreachable):
            store.get([NEW])
        with pytest.raises(Unreachable, match="nothing was asked"):
            store.swap(claims([NEW]))
        own.restart()

        assert [stored(seen) for seen in store.get(keys(20))] == kept


@restarting
@pytest.mark.slow
def test_a_server_that_was_restarted_between_two_calls_is_not_noticed(own, place):
    with closing(connect(place)) as store:
        first = stored(store.swap(claims([NEW]))[0])
        own.kill()
        own.restart()
        [renewed] = store.swap([Change(NEW, first.version, entry("held", "ann"))])

    assert stored(renewed).version == first.version + 1


@restarting
@pytest.mark.slow
def test_no_acknowledged_claim_is_lost_when_the_server_is_killed_again_and_again(own, place):
    told: dict[Key, int] = {}
    with closing(connect(place)) as store:
        for turn in range(2):
            told |= claimed_until_killed(own, store, turn)
            own.restart()
        found = zip(told, store.get([*told]), strict=True)

        assert {key: stored(seen).version for key, seen in found} == told
    assert len(told) >= 2 * 4 * 30


# ----- silent


def test_what_was_not_answered_is_unknown_and_is_found_when_the_same_token_asks_again(own, place):
    with closing(connect(with_option(place, HASTY))) as store:
        store.swap(claims(keys(1)))
        with stopped(own):
            assert store.swap(claims([NEW])) == [UNKNOWN]
        again = _answered(store)
        other = stored(store.swap(claims([NEW], "bob"))[0])

    assert again.token == "ann"
    assert other == again, "it was written once"


def _answered(store):
    """Ask until the server is awake."""
    while True:
        try:
            [reply] = store.swap(claims([NEW]))
        except Unreachable:
            continue
        if reply is not UNKNOWN:
            return stored(reply)


def test_a_look_that_is_not_answered_says_so(own, place):
    with closing(connect(with_option(place, HASTY))) as store:
        store.get([NEW])
        with stopped(own), pytest.raises(Unanswered, match="was asked and did not answer"):
            store.get([NEW])


def test_a_server_that_accepts_and_says_nothing_was_not_asked(own, place):
    store = connect(with_option(place, HASTY))
    with stopped(own), pytest.raises(Unreachable, match="nothing was asked") as raised:
        store.swap(claims([NEW]))

    assert not isinstance(raised.value, Unanswered)


def test_an_effect_is_not_started_while_the_server_is_silent_and_runs_once_afterwards(own, place):
    ran: list[int] = []
    with closing(Ledger(with_option(place, f"{HASTY}&max_skew=0"))) as ledger:
        ledger.look(NEW)
        with stopped(own), pytest.raises(Unreachable):
            ledger.call(NEW, lambda: ran.append(1), **SHORT)
        assert ran == []
    with closing(Ledger(with_option(place, "max_skew=0"))) as ledger:
        ledger.call(NEW, lambda: ran.append(2), wait=60.0, **SHORT)
        ledger.call(NEW, lambda: ran.append(3), wait=60.0, **SHORT)

    assert ran == [2]


# ----- not as it should be


@pytest.mark.parametrize("login", ["ann:wrong", "nobody:wrong", "cassandra:wrong", ""])
def test_a_wrong_or_missing_password_is_told_without_repeating_it_and_nothing_runs(own, login):
    if not urlsplit(own.url).password:
        pytest.skip("this release is not set to want a password")
    with session(own.url) as superuser:
        superuser.execute("CREATE ROLE IF NOT EXISTS ann WITH password = 'hidden' AND login = true")
    ran: list[int] = []
    ledger = Ledger(as_user(own.url, login))

    with pytest.raises(Misconfigured) as raised:
        ledger.call(NEW, lambda: ran.append(1))

    assert "password" in str(raised.value)
    assert "wrong" not in str(raised.value)
    assert ran == []


def test_a_keyspace_that_does_not_exist_is_told_with_how_to_make_it(cassandra_url):
    for create in (True, False):
        store = connect(cassandra_url.replace("/onefold_", "/nobodys_"), create)
        with pytest.raises(Misconfigured, match=r"does not exist: make it .*`onefold store sql cassandra:`"):
            store.get([NEW])


def test_a_ledger_that_was_never_made_is_not_made_by_those_who_only_look(cassandra_url):
    with pytest.raises(Misconfigured, match="has no ledger in it"):
        connect(cassandra_url, create=False).get([NEW])
    with closing(connect(cassandra_url)) as maker:
        assert maker.get([NEW]) == [NOTHING]
    with closing(connect(cassandra_url, create=False)) as looker:
        assert looker.get([NEW]) == [NOTHING]


def test_tables_that_are_dropped_under_a_worker_are_told_and_made_again(cassandra_url):
    with closing(connect(cassandra_url)) as store:
        store.swap(claims([NEW]))
        for table in ("entries", "open", "meta"):
            store.client.query(f"DROP TABLE {store.client.address.table(table)}")
        with pytest.raises(Misconfigured, match="has no ledger in it"):
            store.get([NEW])

        assert tokens(store.swap(claims([NEW], "bob"))) == ["bob"]
