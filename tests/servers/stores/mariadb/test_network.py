"""A silent server: its clients have other words for how long they wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onefold import Key
from onefold.core.entry import UNKNOWN
from onefold.core.errors import Unreachable
from onefold.testing.proxy import Proxy
from tests.servers.stores.words import inserts

pytestmark = pytest.mark.store("mariadb")

KEY = Key("network", 1)


@pytest.fixture
def proxy(mariadb_url: str) -> Iterator[Proxy]:
    with Proxy.before(mariadb_url) as proxy:
        yield proxy


def test_a_silent_server_is_given_up_and_asked_again_when_it_speaks(opened, proxy, sql):
    store = opened(f"{proxy.url}?timeout=2")
    store.get([KEY])
    proxy.mute()
    with pytest.raises(Unreachable, match=r"cannot be reached: .*nothing was asked"):
        store.call(KEY)
    written = sql("SELECT COUNT(*) FROM onefold_entries")
    proxy.heal()

    assert (written, store.call(KEY)) == ([(0,)], "ran")


def test_what_a_silent_server_was_asked_is_unknown(opened, proxy):
    store = opened(f"{proxy.url}?timeout=2")
    store.get([KEY])
    proxy.mute()

    assert list(store.swap(inserts([KEY]))) == [UNKNOWN]
    proxy.heal()
    store.get([KEY])
    proxy.mute()
    with pytest.raises(Unreachable, match=r"did not answer: .*(no answer within 2 s|timed out)"):
        store.get([KEY])
