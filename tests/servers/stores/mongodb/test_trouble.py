"""A MongoDB that is down, silent, locked, killed or newer: what is said, and that it comes back."""

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from onefold import Ledger, Terms
from onefold.core.entry import NOTHING, UNKNOWN
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold.stores.mongodb import aconnect, connect
from onefold.stores.shells import Blocking
from tests.launchers.fixtures import launched
from tests.launchers.server import Launched, free_port
from tests.servers.stores.mongodb.ledgers import Server
from tests.servers.stores.words import NEW, claimed_until_killed, claims, keys, stopped, stored, tokens

pytestmark = pytest.mark.store("mongodb")

BRIEF = "&serverSelectionTimeoutMS=4000"
"""Do not wait long for a server that is not there; the client looks for it every half second."""

HASTY = "&socketTimeoutMS=2000"
"""Do not wait long for an answer; a busy machine must still give one where it is not silent."""


@pytest.fixture
def own(own_server) -> Launched:
    """Start a server that this test may end."""
    return launched(own_server, "mongodb")


# ----- down


def test_a_server_that_is_not_there_is_told_with_its_name_and_nothing_runs():
    port = free_port()
    ran: list[int] = []

    with (
        closing(Ledger(f"mongodb://ann:hidden@127.0.0.1:{port}/shop?serverSelectionTimeoutMS=200")) as ledger,
        pytest.raises(Unreachable) as raised,
    ):
        ledger.call(NEW, lambda: ran.append(1))

    assert str(raised.value).startswith(f"mongodb at 127.0.0.1:{port}/shop cannot be reached: ")
    assert "nothing was asked. Is it running" in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert ran == []


def test_a_server_that_is_not_there_is_told_awaited():
    async def main() -> None:
        store = aconnect(f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=200")
        with pytest.raises(Unreachable, match=r"cannot be reached.*nothing was asked"):
            await store.get([NEW])
        await store.close()

    asyncio.run(main())


def test_threads_do_not_wait_for_one_another_while_no_server_is_found():
    """Each waits a second, as it would alone; one after another, they would wait twelve."""
    url = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=1000"
    with closing(connect(url)) as store, ThreadPoolExecutor(12) as pool:
        started = time.monotonic()
        told = list(pool.map(lambda _: refused(store), range(12)))
        waited = time.monotonic() - started

    assert all("cannot be reached" in each for each in told)
    assert waited < 12.0


def refused(store: Blocking) -> str:
    with pytest.raises(Unreachable) as raised:
        store.get([NEW])
    return str(raised.value)


def test_a_server_that_comes_back_is_used_again_and_knows_what_it_acknowledged(own):
    with closing(connect(own.url + BRIEF)) as store:
        kept = [stored(reply) for reply in store.swap(claims(keys(20)))]
        own.stop()
        with pytest.raises(Unreachable):
            store.get([NEW])
        own.restart()

        assert [stored(seen) for seen in store.get(keys(20))] == kept


def test_it_is_used_again_awaited(own):
    async def main() -> None:
        store = aconnect(own.url + BRIEF)
        kept = [stored(reply) for reply in await store.swap(claims(keys(20)))]
        await asyncio.to_thread(own.stop)
        with pytest.raises(Unreachable):
            await store.get([NEW])
        await asyncio.to_thread(own.restart)

        assert [stored(seen) for seen in await store.get(keys(20))] == kept
        await store.close()

    asyncio.run(main())


def test_an_effect_during_which_the_server_died_and_returned_is_settled(own):
    with closing(Ledger(own.url)) as ledger:

        def effect() -> str:
            own.kill()
            own.restart()
            return "sent"

        outcome = ledger.call(NEW, effect)
        again = ledger.call(NEW, effect)

    assert (outcome.state, outcome.receipt) == ("ran", "sent")
    assert (again.state, again.receipt) == ("done", "sent")


def test_no_acknowledged_claim_is_lost_when_the_server_is_killed_again_and_again(own):
    """In the middle of batches."""
    told: dict[Key, int] = {}
    with closing(connect(own.url + BRIEF)) as store:
        for turn in range(2):
            told |= claimed_until_killed(own, store, turn)
            own.restart()
        found = store.get([*told])

    assert len(told) >= 2 * 3 * 30, "the first batch after a restart may be unknown"
    assert {key: seen.entry and seen.entry.version for key, seen in zip(told, found, strict=True)} == told


# ----- silent and slow


def test_what_was_not_answered_is_unknown_and_is_found_when_the_same_token_asks_again(own):
    with closing(connect(own.url + HASTY)) as store:
        store.get([NEW])
        with stopped(own):
            assert store.swap(claims([NEW])) == [UNKNOWN]
        [again] = store.swap(claims([NEW]))
        [other] = store.swap(claims([NEW], "bob"))

    assert stored(again).token == "ann"
    assert stored(other) == stored(again), "it was written once"


def test_what_was_not_answered_is_unknown_awaited(own):
    async def main() -> None:
        store = aconnect(own.url + HASTY)
        await store.get([NEW])
        with stopped(own):
            assert await store.swap(claims([NEW])) == [UNKNOWN]
        assert tokens(await store.swap(claims([NEW]))) == ["ann"]
        await store.close()

    asyncio.run(main())


def test_a_look_that_is_not_answered_says_so(own):
    with closing(connect(own.url + HASTY)) as store:
        store.get([NEW])
        with stopped(own), pytest.raises(Unanswered, match=r"was asked and did not answer: .*timed out"):
            store.get([NEW])
        assert store.get([NEW]) == [NOTHING], "a late answer is not taken for the next one"


def test_a_server_that_accepts_and_says_nothing_was_not_asked(own):
    with closing(connect(own.url + HASTY + BRIEF)) as store:
        with stopped(own), pytest.raises(Unreachable) as raised:
            store.swap(claims([NEW]))

        assert not isinstance(raised.value, Unanswered)
        assert store.get([NEW]) == [NOTHING]


def test_a_server_that_is_locked_against_writes_starts_no_effect_and_runs_it_once_afterwards(own):
    """As for a backup (fsyncLock): it can be read, and a write waits without an end, also of who gave up."""
    ran: list[int] = []
    how: dict[str, Any] = {"effect": "idempotent", "terms": Terms(lease=1), "wait": 60.0}
    with Server(own.url) as database, closing(Ledger(own.url + HASTY)) as ledger:
        ledger.look(NEW)
        database.client.admin.command("fsync", lock=True)
        with pytest.raises(Unreachable):
            ledger.call(NEW, lambda: ran.append(1), **how)
        assert ran == []
        database.client.admin.command("fsyncUnlock")
        states = [ledger.call(NEW, lambda: ran.append(2), **how).state for _ in range(2)]

    assert states == ["ran", "done"]
    assert ran == [2]


# ----- refusing


def test_a_ledger_that_was_never_made_is_not_made_by_those_who_only_look(mongodb_url):
    with (
        closing(connect(mongodb_url, create=False)) as looker,
        pytest.raises(Misconfigured, match="has no ledger in it: a worker makes it"),
    ):
        looker.get([NEW])
    with Server(mongodb_url) as database:
        assert database.list_collection_names() == []
    with closing(connect(mongodb_url)) as maker:
        assert maker.get([NEW]) == [NOTHING]
    with closing(connect(mongodb_url, create=False)) as looker:
        assert looker.get([NEW]) == [NOTHING]


def test_a_ledger_of_the_future_is_refused_and_left_alone(mongodb_url):
    with Server(mongodb_url) as database:
        database.onefold_meta.insert_one({"_id": "schema", "version": 7})
        with (
            closing(connect(mongodb_url)) as store,
            pytest.raises(Misconfigured, match=r"by a newer Onefold \(schema 7, this one knows 1\): upgrade"),
        ):
            store.swap(claims([NEW]))
        assert database.list_collection_names() == ["onefold_meta"]


def test_a_view_under_our_name_is_told_and_left_alone(mongodb_url):
    with Server(mongodb_url) as database:
        database.create_collection("onefold_entries", viewOn="others", pipeline=[])
        with (
            closing(connect(mongodb_url)) as store,
            pytest.raises(Misconfigured, match="has something else under our names"),
        ):
            store.swap(claims([NEW]))


def test_rules_that_somebody_set_for_entries_are_told(mongodb_url):
    with closing(connect(mongodb_url)) as store, Server(mongodb_url) as database:
        database.create_collection("onefold_entries", validator={"nobody": {"$exists": True}})
        for some in (keys(1), keys(3)):
            with pytest.raises(Misconfigured, match="somebody set rules for it"):
                store.swap(claims(some))
        assert store.get(keys(3)) == [NOTHING] * 3


def test_another_index_of_our_name_is_told(mongodb_url):
    with Server(mongodb_url) as database:
        database.onefold_entries.create_index("label", name="onefold_open")
        with (
            closing(connect(mongodb_url)) as store,
            pytest.raises(Misconfigured, match="has another index of ours"),
        ):
            store.get([NEW])
        database.onefold_entries.drop_index("onefold_open")
        with closing(connect(mongodb_url)) as store:
            assert store.get([NEW]) == [NOTHING]


def test_a_missing_driver_is_named_with_the_extra_that_brings_it():
    lines = [
        "import sys, onefold.stores as stores",
        "sys.modules['pymongo'] = None",
        "try: stores.connect('mongodb://db/ledger')",
        "except Exception as error: print(type(error).__name__, error)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)

    assert done.stdout.startswith("NotInstalled the store mongodb needs pymongo, which is not"), done.stderr
    assert 'pip install "onefold[mongodb]"' in done.stdout
