"""A cable that breaks in every place between a worker and DynamoDB: nothing is told that is not so."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from random import Random

import pytest

from onefold.core.entry import STATES, UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Unanswered, Unreachable
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.testing.contract.words import entry
from onefold.testing.proxy import Drop, Mishap, Proxy, Reset, Swallow, at_random

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import connect
from onefold.stores.dynamodb.address import address
from onefold.stores.dynamodb.client import Client
from onefold.stores.dynamodb.plan import DynamoPlan
from onefold.stores.shells import Blocking

pytestmark = pytest.mark.store("dynamodb")

WRITE = b"PutItem"
ONCE = b"DescribeTable"
NAMES = sorted((Key("charges", n) for n in range(30)), key=lambda key: key.id)

BREAKS: list[Mishap] = [
    Drop(),
    Swallow(),
    Reset(1, "request"),
    Reset(200, "request"),
    Reset(600, "request"),
    Reset(1, "reply"),
    Reset(60, "reply"),
]


@pytest.fixture
def straight(dynamodb_url: str) -> Iterator[Store]:
    """A way to the same table that never breaks; the table is made."""
    with closing(connect(dynamodb_url)) as store:
        store.get(NAMES[:1])
        yield store


@pytest.fixture
def proxy(dynamodb_url: str, straight: Store) -> Iterator[Proxy]:
    with Proxy.before(dynamodb_url) as proxy:
        yield proxy


def claims(names: Sequence[Key], token: str = "ann") -> list[Change]:
    return [Change(name, None, entry(token=token)) for name in names]


def tokens(replies: Sequence[Reply]) -> list[str]:
    return [reply.entry.token for reply in replies if isinstance(reply, Seen) and reply.entry]


def is_so(replies: Sequence[Reply], names: Sequence[Key], straight: Store) -> bool:
    """Say whether every reply that is not unknown is what stands in the table."""
    found = straight.get(names)
    return all(
        reply is UNKNOWN or reply.entry == seen.entry for reply, seen in zip(replies, found, strict=True)
    )


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_claim_on_a_breaking_cable_is_unknown_and_asked_again_is_won_once(proxy, straight, mishap):
    with closing(connect(proxy.url)) as store:
        store.get(NAMES[:1])
        proxy.arm(mishap, when=WRITE)
        assert store.swap(claims(NAMES[:1])) == [UNKNOWN]
        assert proxy.armed == 0
        again = store.swap(claims(NAMES[:1]))

    assert tokens(again) == ["ann"]
    assert is_so(again, NAMES[:1], straight)
    assert tokens(straight.swap(claims(NAMES[:1], "bob"))) == ["ann"]


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_of_a_batch_only_what_was_cut_off_or_not_sent_is_unknown(proxy, straight, mishap):
    with closing(connect(proxy.url)) as store:
        store.get(NAMES[:1])
        proxy.arm(mishap, when=WRITE)
        replies = store.swap(claims(NAMES))
        assert UNKNOWN in replies
        assert is_so(replies, NAMES, straight)
        again = store.swap(claims(NAMES))

    assert tokens(again) == ["ann"] * len(NAMES)
    assert is_so(again, NAMES, straight)


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_look_on_a_breaking_cable_says_that_it_was_not_answered(proxy, straight, mishap):
    with closing(connect(proxy.url)) as store:
        straight.swap(claims(NAMES[:1]))
        store.get(NAMES[:1])
        proxy.arm(mishap, when=b"BatchGetItem")
        with pytest.raises(Unanswered):
            store.get(NAMES[:1])
        assert is_so(store.get(NAMES[:1]), NAMES[:1], straight)


@pytest.mark.parametrize("mishap", [Drop(), Swallow()], ids=str)
def test_a_cable_that_breaks_while_connecting_says_that_nothing_was_asked(proxy, straight, mishap):
    with closing(connect(proxy.url)) as store:
        proxy.arm(mishap, when=ONCE)
        with pytest.raises(Unreachable, match="nothing else was asked yet") as raised:
            store.swap(claims(NAMES[:1]))
        assert not isinstance(raised.value, Unanswered)
        assert tokens(store.swap(claims(NAMES[:1]))) == ["ann"]


def test_a_server_behind_a_cut_cable_is_unreachable_until_it_is_healed(proxy, straight):
    with closing(connect(proxy.url)) as store:
        store.swap(claims(NAMES[:1]))
        proxy.cut()
        with pytest.raises(Unreachable, match="cannot be reached"):
            store.swap(claims(NAMES))
        assert is_so(straight.get(NAMES[1:]), NAMES[1:], straight)
        proxy.heal()
        assert tokens(store.swap(claims(NAMES[:1], "bob"))) == ["ann"]


# ----- at random


class Account:
    """What was told over a breaking cable, beside what is so."""

    def __init__(self, straight: Store) -> None:
        self._straight = straight
        self.known = self.unknown = 0
        self.lies: list[str] = []

    def take(self, store: Store, changes: Sequence[Change]) -> None:
        """Try changes, and note whether what is told of them is so."""
        names = [change.key for change in changes]
        before = self._entries(names)
        try:
            replies = store.swap(changes)
        except Unreachable as error:
            if self._entries(names) != before:
                self.lies.append(f"refused and written: {error}")
            return
        self.known += sum(reply is not UNKNOWN for reply in replies)
        self.unknown += sum(reply is UNKNOWN for reply in replies)
        if not is_so(replies, names, self._straight):
            self.lies.append(f"told {replies}")

    def _entries(self, names: Sequence[Key]) -> list[Entry | None]:
        return [seen.entry for seen in self._straight.get(names)]


def at_random_account(store: Store, straight: Store, seed: int, turns: int) -> Account:
    account, chance, names = Account(straight), Random(seed), NAMES[:3]
    for turn in range(turns):
        wanted = entry(chance.choice(STATES), f"turn {turn}", body=str(turn))
        versions = [seen.entry.version if seen.entry else None for seen in straight.get(names)]
        account.take(
            store, [Change(name, version, wanted) for name, version in zip(names, versions, strict=True)]
        )
    return account


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))])
def test_behind_a_cable_that_breaks_at_random_no_lie_is_told(dynamodb_url, straight, seed):
    with Proxy.before(dynamodb_url, at_random(seed, most=900)) as proxy, closing(connect(proxy.url)) as store:
        account = at_random_account(store, straight, seed, turns=30)

    assert account.lies == []
    assert min(account.known, account.unknown) >= 5, "both were met"


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
def test_a_store_that_guesses_is_found_out(dynamodb_url, straight, kind):
    with Proxy.before(dynamodb_url, at_random(1, most=900)) as proxy:
        found = address(proxy.url)
        with closing(kind(DynamoPlan(found.table, found.max_skew), Client(found))) as store:
            assert at_random_account(store, straight, 1, turns=12).lies != []
