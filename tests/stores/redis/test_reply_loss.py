"""A cable that breaks in every place between a worker and a Redis: nothing is told that is not so."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from random import Random

import pytest

from onefold.core.entry import NOTHING, STATES, UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Unanswered, Unreachable
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.testing.contract.words import entry
from onefold.testing.proxy import Delay, Drop, Mishap, Proxy, Reset, Silence, Swallow, at_random

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis import aconnect, connect
from onefold.stores.redis.client import Client
from onefold.stores.redis.plan import RedisPlan
from onefold.stores.shells import Blocking
from tests.stores.redis.ledgers import NEW, claims, keys, stored, tokens

pytestmark = pytest.mark.store("redis")

CLAIM = b"EVAL"

BREAKS: list[Mishap] = [
    Drop(),
    Swallow(),
    Reset(1, "request"),
    Reset(40, "request"),
    Reset(300, "request"),
    Reset(1, "reply"),
    Reset(9, "reply"),
]


@pytest.fixture
def proxy(redis_url):
    with Proxy.before(redis_url) as proxy:
        yield proxy


@pytest.fixture
def straight(redis_url):
    """A way to the same server that never breaks."""
    with closing(connect(redis_url)) as store:
        yield store


def is_so(replies: Sequence[Reply], names: Sequence[Key], straight: Store) -> bool:
    """Say whether every reply that is not unknown is what stands in the server."""
    found = straight.get(names)
    return all(
        reply is UNKNOWN or reply.entry == seen.entry for reply, seen in zip(replies, found, strict=True)
    )


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_claim_on_a_breaking_cable_is_unknown_and_asked_again_is_won_once(proxy, straight, mishap):
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        proxy.arm(mishap, when=CLAIM)
        replies = store.swap(claims(keys(120)))
        assert set(replies) == {UNKNOWN}
        assert proxy.armed == 0
        again = store.swap(claims(keys(120)))

    assert tokens(again) == ["ann"] * 120
    assert is_so(again, keys(120), straight)
    assert {stored(reply).token for reply in straight.swap(claims(keys(120), "bob"))} == {"ann"}


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_the_same_holds_awaited(proxy, straight, mishap):
    async def main() -> list[Reply]:
        store = aconnect(proxy.url)
        await store.get([NEW])
        proxy.arm(mishap, when=CLAIM)
        assert set(await store.swap(claims(keys(120)))) == {UNKNOWN}
        again = await store.swap(claims(keys(120)))
        await store.close()
        return list(again)

    again = asyncio.run(main())
    assert tokens(again) == ["ann"] * 120
    assert is_so(again, keys(120), straight)


def test_a_silent_cable_is_unknown_after_the_timeout(proxy, straight):
    with closing(connect(f"{proxy.url}?timeout=0.2")) as store:
        store.get([NEW])
        proxy.arm(Silence(), when=CLAIM)
        assert store.swap(claims([NEW])) == [UNKNOWN]
        assert straight.get([NEW]) == [NOTHING]
        assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_late_reply_is_never_taken_for_the_next_one(proxy):
    with closing(connect(f"{proxy.url}?timeout=0.2")) as store:
        store.get([NEW])
        proxy.arm(Delay(30.0, "reply"), when=CLAIM)
        assert store.swap(claims([NEW])) == [UNKNOWN]
        proxy.release()
        [seen] = store.get([Key("orders", "other")])
        assert seen == NOTHING


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_look_on_a_breaking_cable_says_that_it_was_not_answered(proxy, mishap):
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        proxy.arm(mishap, when=CLAIM)
        with pytest.raises(Unanswered):
            store.get(keys(30))
        assert store.get([NEW]) == [NOTHING]


@pytest.mark.parametrize("mishap", [Drop(), Swallow(), Reset(20, "request"), Reset(3, "reply")], ids=str)
@pytest.mark.parametrize("word", [b"AUTH", b"SELECT", b"HELLO", b"HSETNX"])
def test_a_cable_that_breaks_while_connecting_says_that_nothing_was_asked(proxy, word, mishap):
    with closing(connect(proxy.url)) as store:
        proxy.arm(mishap, when=word)
        with pytest.raises(Unreachable, match="nothing was asked") as raised:
            store.swap(claims([NEW]))
        assert not isinstance(raised.value, Unanswered)
        assert proxy.armed == 0
        assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_server_behind_a_cut_cable_is_unreachable_until_it_is_healed(proxy):
    with closing(connect(proxy.url)) as store:
        first = store.swap(claims([NEW]))
        proxy.cut()
        with pytest.raises(Unreachable, match="cannot be reached"):
            store.swap(claims([NEW]))
        proxy.heal()
        assert tokens(store.swap(claims([NEW], "bob"))) == tokens(first)


def test_the_cable_may_break_anywhere_in_a_request_and_in_its_reply(proxy, straight):
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        for at in range(1, 330, 7):
            for direction in ("request", "reply"):
                names = keys(2, f"{direction} {at}")
                proxy.arm(Reset(at, direction), when=CLAIM)
                replies = store.swap(claims(names))
                assert is_so(replies, names, straight)
                again = store.swap(claims(names))
                assert tokens(again) == ["ann", "ann"]
                assert is_so(again, names, straight)


# ----- at random


class Account:
    """What was told over a breaking cable, beside what is so."""

    def __init__(self, straight: Store) -> None:
        self._straight = straight
        self.known = self.unknown = self.refused = 0
        self.lies: list[str] = []

    def take(self, store: Store, changes: Sequence[Change]) -> None:
        """Try changes, and note whether what is told of them is so."""
        names = [change.key for change in changes]
        before = self._entries(names)
        try:
            replies = store.swap(changes)
        except Unreachable as error:
            self.refused += 1
            if self._entries(names) != before:
                self.lies.append(f"refused and written: {error}")
            return
        self.known += sum(reply is not UNKNOWN for reply in replies)
        self.unknown += sum(reply is UNKNOWN for reply in replies)
        if not is_so(replies, names, self._straight):
            self.lies.append(f"told {replies}")

    def _entries(self, names: Sequence[Key]) -> list[Entry | None]:
        return [seen.entry for seen in self._straight.get(names)]


def at_random_account(store: Store, straight: Store, seed: int, turns: int = 120) -> Account:
    account, chance, names = Account(straight), Random(seed), keys(3)
    for turn in range(turns):
        wanted = entry(chance.choice(STATES), f"turn {turn}", body=str(turn))
        versions = [seen.entry.version if seen.entry else None for seen in straight.get(names)]
        account.take(
            store, [Change(name, version, wanted) for name, version in zip(names, versions, strict=True)]
        )
    return account


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_behind_a_cable_that_breaks_at_random_no_lie_is_told(redis_url, straight, seed):
    with Proxy.before(redis_url, at_random(seed)) as proxy, closing(connect(proxy.url)) as store:
        account = at_random_account(store, straight, seed)

    assert account.lies == []
    assert min(account.known, account.unknown, account.refused) >= 5, "each of the three was met"


class Hopeful(Blocking):
    """A store that takes what was not answered for not done."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = super().swap(changes)
        if UNKNOWN in replies:
            raise Unreachable("nothing was written, it hopes")
        return replies


class Fearless(Blocking):
    """A store that takes what was not answered for done."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        told = zip(changes, super().swap(changes), strict=True)
        return [Seen(change.entry) if reply is UNKNOWN else reply for change, reply in told]


@pytest.mark.parametrize("kind", [Hopeful, Fearless])
def test_a_store_that_guesses_is_found_out(redis_url, straight, kind):
    with Proxy.before(redis_url, at_random(1)) as proxy:
        client = Client(proxy.url)
        with closing(kind(RedisPlan(client.address.prefix), client)) as store:
            assert at_random_account(store, straight, 1, turns=60).lies != []
