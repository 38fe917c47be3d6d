"""A MariaDB store beside real life: what it promises beyond `relational/test_life.py`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from onefold import Key
from onefold.core.errors import Unreachable
from onefold.stores.mariadb import aconnect
from onefold.stores.mariadb.plan import Statement
from tests.launchers.fixtures import launched
from tests.processes.stores.sqlite.neighbours import FORKING, in_child
from tests.servers.stores.mariadb.ledgers import dialled
from tests.servers.stores.relational.databases import Mariadb
from tests.servers.stores.words import inserts, token
from tests.waiting import wait_for

pytestmark = pytest.mark.store("mariadb")

KEY = Key("life", 1)
WHO = Statement("SELECT CONNECTION_ID()")


def test_a_look_after_the_server_returned_is_answered_at_once(own_server, opened):
    server = launched(own_server, "mariadb")
    store = opened(Mariadb().home(server))
    store.call(KEY)
    server.restart()

    assert store.get([KEY])[0].entry.state == "done"


def test_a_look_that_an_operator_interrupts_is_told_and_the_next_one_is_answered(opened, mariadb_url, sql):
    store = opened(mariadb_url)
    [[number]] = store.ask(WHO.sql)
    store.ask("SET SESSION lock_wait_timeout = 60")
    with closing(dialled(mariadb_url)) as other, ThreadPoolExecutor(1) as pool:
        other.query("LOCK TABLES onefold_entries WRITE")
        waiting = pool.submit(store.swap, inserts([KEY]))
        wait_for(lambda: sql(WAITING, number) == [(1,)])
        sql(f"KILL QUERY {number}")
        with pytest.raises(Unreachable, match=r"nothing was written: .*somebody interrupted it"):
            waiting.result()

    assert token(store.swap(inserts([KEY]))[0]) == "ann"


WAITING = (
    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s AND state LIKE 'Waiting for table%%'"
)


@pytest.mark.filterwarnings(FORKING)
def test_a_forked_child_awaits_on_a_session_of_its_own(mariadb_url):
    store = aconnect(mariadb_url)

    async def main() -> list[object]:
        mine = await store.client.execute_many([WHO])
        theirs = await asyncio.to_thread(in_child, lambda: asyncio.run(store.client.execute_many([WHO])))
        still = await store.client.execute_many([WHO])
        await store.close()
        return [mine, theirs, still]

    mine, theirs, still = asyncio.run(main())

    assert theirs != mine
    assert still == mine
