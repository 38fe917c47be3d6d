"""A silent server: its clients have other words for how long they wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from onefold import Key
from onefold.core.entry import UNKNOWN
from onefold.core.errors import Unreachable
from onefold.testing.proxy import Proxy
from tests.servers.stores.postgresql.ledgers import Blocking
from tests.servers.stores.words import inserts

pytestmark = pytest.mark.store("postgresql")

KEY = Key("network", 1)


@pytest.fixture
def proxy(postgresql_url: str) -> Iterator[Proxy]:
    with Proxy.before(postgresql_url) as proxy:
        yield proxy


def test_a_silent_server_is_given_up_and_asked_again_when_it_speaks(proxy, sql):
    with closing(Blocking(f"{proxy.url}&connect_timeout=2", patience=2)) as store:
        store.get([KEY])
        proxy.mute()
        with pytest.raises(Unreachable, match=r"cannot be reached: .*timeout expired; nothing was asked"):
            store.call(KEY)
        written = sql("SELECT count(*) FROM onefold_entries")
        proxy.heal()
        state = store.call(KEY)

    assert (written, state) == ([(0,)], "ran")


def test_what_a_silent_server_was_asked_is_unknown(opened, proxy):
    store = opened(proxy.url, patience=2)
    store.get([KEY])
    proxy.mute()

    assert list(store.swap(inserts([KEY]))) == [UNKNOWN]
    with pytest.raises(Unreachable, match=r"did not answer: no answer within 2 s"):
        _read_through_a_new_hole(store, proxy)


def _read_through_a_new_hole(store: Blocking, proxy: Proxy) -> None:
    proxy.heal()
    store.get([KEY])
    proxy.mute()
    store.get([KEY])
