"""A Cassandra that refuses: rights, a full disk, reads through too many tombstones."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice
from typing import Any
from urllib.parse import urlsplit

import pytest

from onefold import Ledger
from onefold.core.entry import NOTHING, Change
from onefold.core.errors import Misconfigured, Unanswered, Unreachable
from onefold.core.key import Key
from onefold.testing.contract.words import entry
from tests.launchers.cassandra import session
from tests.launchers.cassandra_guarded import TOMBSTONES, as_user
from tests.launchers.server import Server

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores.cassandra import connect
from onefold.stores.cassandra.rows import part
from tests.servers.stores.words import NEW, claims, stored, tokens

pytestmark = [pytest.mark.store("cassandra"), pytest.mark.slow]  # a server that only they have


@pytest.fixture(scope="module")
def place(guarded_cassandra: Server) -> Iterator[str]:
    with guarded_cassandra.place() as url:
        yield url


@pytest.fixture(scope="module")
def superuser(place: str) -> Iterator[Any]:
    with session(place) as opened:
        yield opened


@pytest.fixture
def ann(place: str, superuser: Any) -> Iterator[str]:
    """The URL of an ordinary user, who has no rights yet."""
    superuser.execute("CREATE ROLE IF NOT EXISTS ann WITH password = 'hidden' AND login = true")
    yield as_user(place, "ann:hidden")
    superuser.execute("DROP ROLE ann")


def in_one_part(scope: str) -> Iterator[Key]:
    """Make keys whose hints are all in one partition."""
    return (key for key in (Key(scope, n) for n in count()) if part(key.id) == 0)


def test_a_user_without_rights_is_told_which_one_is_missing(place, superuser, ann):
    keyspace = urlsplit(place).path[1:]
    with closing(connect(place)) as maker:
        maker.get([NEW])
    with closing(connect(ann)) as store, pytest.raises(Misconfigured, match="has no SELECT permission"):
        store.get([NEW])
    superuser.execute(f"GRANT SELECT ON KEYSPACE {keyspace} TO ann")
    with closing(connect(ann)) as store:
        assert store.get([NEW]) == [NOTHING]
        with pytest.raises(Misconfigured, match=r"has no MODIFY permission.*GRANT it"):
            store.swap(claims([NEW]))


def test_a_full_disk_takes_no_claims_and_says_so(place, superuser, ann):
    superuser.execute(f"GRANT ALL ON KEYSPACE {urlsplit(place).path[1:]} TO ann")
    ran: list[int] = []
    with closing(Ledger(place)) as exempt, closing(Ledger(ann)) as ledger:
        exempt.look(NEW)
        with pytest.raises(Unreachable, match=r"a disk is full: .*make room or add nodes"):
            ledger.call(NEW, lambda: ran.append(1))
        assert ran == []
        # The limit does not hold for the superuser: so it is for everybody, once there is room.
        exempt.call(NEW, lambda: ran.append(2))
        exempt.call(NEW, lambda: ran.append(3))
    assert ran == [2]


def test_a_full_disk_takes_no_batch_of_claims_either(place, superuser, ann):
    superuser.execute(f"GRANT ALL ON KEYSPACE {urlsplit(place).path[1:]} TO ann")
    batch = sorted(islice(in_one_part("batches"), 5), key=lambda key: key.id)
    with closing(connect(place)) as exempt, closing(connect(ann)) as store:
        exempt.get(batch)
        with pytest.raises(Unreachable, match=r"a disk is full: .*make room or add nodes"):
            store.swap(claims(batch))
        # There is room for the superuser. The same tokens win, and now with their hints.
        assert tokens(exempt.swap(claims(batch))) == ["ann"] * 5
        found, _ = exempt.scan("batches", ("held",), False, None, 10)

    assert sorted(key.id for key, _ in found) == [key.id for key in batch]


def test_what_was_claimed_before_the_disk_was_full_can_still_be_ended(place, superuser, ann):
    superuser.execute(f"GRANT ALL ON KEYSPACE {urlsplit(place).path[1:]} TO ann")
    running = Key("orders", "running")
    with closing(connect(place)) as exempt, closing(connect(ann)) as store:
        [held] = exempt.swap(claims([running]))
        [done] = store.swap([Change(running, stored(held).version, entry("done"))])

    assert stored(done).state == "done"


def test_a_list_that_reads_through_too_much_ended_work_fails_loudly_and_claims_go_on(place):
    ended = sorted(islice(in_one_part("charges"), TOMBSTONES + 100), key=lambda key: key.id)
    with closing(connect(place)) as store:
        held = [stored(reply) for reply in store.swap(claims(ended))]
        store.swap(
            [Change(name, each.version, entry("done")) for name, each in zip(ended, held, strict=True)]
        )
        with pytest.raises(Unanswered, match="`onefold doctor` says whether there are too many tombstones"):
            store.scan(None, ("held",), False, None, 10)
        assert tokens(store.swap(claims([Key("charges", "more")]))) == ["ann"]
