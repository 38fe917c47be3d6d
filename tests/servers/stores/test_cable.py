"""A cable that breaks in every place between a worker and a server: nothing is told that is not so.

One table for all stores with a server; a store gets a row. What is told over the cable is compared with what
another connection finds in the server.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from random import Random
from typing import Any, NamedTuple

import pytest

from onefold.core.entry import NOTHING, STATES, UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Unanswered, Unreachable
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.stores import aconnect, connect
from onefold.testing.contract.words import entry, in_order
from onefold.testing.proxy import Delay, Drop, Mishap, Proxy, Reset, Silence, Swallow, at_random
from tests.servers.stores.words import with_option


class Cable(NamedTuple):
    """What goes over the cable to one kind of store."""

    write: bytes
    """Words in what writes a batch, and in nothing else."""
    look: bytes
    """Words in what reads, and in nothing that writes, unless a write and its reply are one exchange."""
    opening: tuple[bytes, ...] = ()
    """Words in what makes a connection ready."""
    hasty: str = ""
    """What to add to a URL, so that silence is not waited for long."""
    second: bytes = b""
    """Words in what follows a write before its reply, where that is not a look."""
    whole: bool = True
    """A batch leaves in one piece, so that nothing of it is known after a break."""
    shortest: int = 1000
    """Bytes of the shortest request; a break behind its end is none."""
    batch: int = 30
    """Keys of a batch; enough to fill several commands, where a batch is not always one."""
    stride: int = 60
    """Bytes between the places of a request and its reply at which the cable is tried to break."""
    rate: float = 0.2
    turns: int = 60
    """Breaks for each exchange, and calls, where breaks come at random."""
    refused: int = 0
    """How often at least nothing can be asked then, because a connection is not made ready."""
    marks: tuple[pytest.MarkDecorator, ...] = ()


CABLES = {
    "redis": Cable(
        write=b"EVAL",
        look=b"EVAL",
        opening=(b"HSETNX", b"AUTH", b"SELECT", b"HELLO"),  # the first is said while there is no ledger
        hasty="timeout=2",
        batch=120,
        stride=7,
        turns=120,
        refused=5,
    ),
    "mongodb": Cable(
        write=b"documents\0",
        shortest=200,
        look=b"\x02find\0",
        opening=(b"onefold_meta\0",),
        hasty="socketTimeoutMS=2000&serverSelectionTimeoutMS=2000",
        stride=120,
        turns=40,
    ),
    # Prepared statements are known by a digest. What follows it tells them apart: how many values there are,
    # how long the first is, and for a look the level that it asks for.
    "cassandra": Cable(
        write=b'"token"',
        look=b"\x00\x085\x00\x01\x00\x00\x00\x20",
        opening=(b"_meta",),
        hasty="timeout=3",
        second=b"\x00\x05\x00\x00\x00\x04\x00\x00\x00",
        whole=False,
        shortest=80,
        rate=0.05,  # it takes more than twenty exchanges to be connected
        turns=150,
        marks=(pytest.mark.slow,),  # a keyspace takes seconds to be made and dropped
    ),
}

BREAKS: list[Mishap] = [
    Drop(),
    Swallow(),
    Reset(1, "request"),
    Reset(40, "request"),
    Reset(300, "request"),
    Reset(1, "reply"),
    Reset(9, "reply"),
]

NEW = Key("orders", "new")
FEW = sorted((Key("orders", number) for number in range(3)), key=lambda key: key.id)


def keys(cable: Cable, scope: str = "orders") -> list[Key]:
    return sorted((Key(scope, number) for number in range(cable.batch)), key=lambda key: key.id)


def claims(names: Sequence[Key], token: str = "ann") -> list[Change]:
    return in_order(Change(name, None, entry("held", token)) for name in names)


def tokens(replies: Sequence[Reply]) -> list[str]:
    return [reply.entry.token for reply in replies if isinstance(reply, Seen) and reply.entry]


def with_marks(name: str, *more: pytest.MarkDecorator) -> Any:
    return pytest.param(name, marks=[pytest.mark.store(name), *CABLES[name].marks, *more])


def every_day_on(*schemes: str) -> pytest.MarkDecorator:
    """Run on these stores every day, and on all with --slow."""
    rest = [with_marks(name, pytest.mark.slow) for name in CABLES if name not in schemes]
    return pytest.mark.parametrize("scheme", [*map(with_marks, schemes), *rest])


@pytest.fixture(params=[with_marks(name) for name in CABLES])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cable(scheme: str, request: pytest.FixtureRequest) -> Cable:
    cable = CABLES[scheme]
    mishap = request.node.callspec.params.get("mishap")
    if cable.look == cable.write and request.node.callspec.params.get("part") == "second":
        pytest.skip(f"a write to {scheme} and its reply are one exchange")
    if isinstance(mishap, Reset) and mishap.side == "request" and mishap.after > cable.shortest:
        pytest.skip(f"a request to {scheme} may be shorter than this")
    return cable


@pytest.fixture
def url(scheme: str, request: pytest.FixtureRequest) -> str:
    pytest.importorskip(f"onefold.stores.{scheme}", reason=f"the client of {scheme} is not installed")
    return str(request.getfixturevalue(f"{scheme}_url"))


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy.before(url) as proxy:
        yield proxy


@pytest.fixture
def hasty(proxy: Proxy, scheme: str) -> str:
    """The way through the proxy, for who does not wait long."""
    return with_option(proxy.url, CABLES[scheme].hasty)


@pytest.fixture
def straight(url: str) -> Iterator[Store]:
    """A way to the same server that never breaks."""
    with closing(connect(url)) as store:
        yield store


def is_unknown(replies: Sequence[Reply], cable: Cable) -> bool:
    """Say whether a break left unknown what it must: everything, or what it met."""
    return set(replies) == {UNKNOWN} if cable.whole else UNKNOWN in replies


def is_so(replies: Sequence[Reply], names: Sequence[Key], straight: Store) -> bool:
    """Say whether every reply that is not unknown is what stands in the server."""
    found = straight.get(names)
    return all(
        reply is UNKNOWN or reply.entry == seen.entry for reply, seen in zip(replies, found, strict=True)
    )


@pytest.mark.parametrize("part", ["write", "second"])
@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_batch_on_a_breaking_cable_is_unknown_and_asked_again_is_won_once(
    cable, proxy, straight, part, mishap
):
    names = keys(cable)
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        proxy.arm(mishap, when=cable.write if part == "write" else cable.second or cable.look)
        replies = store.swap(claims(names))
        assert is_unknown(replies, cable)
        assert is_so(replies, names, straight)
        assert proxy.armed == 0
        again = store.swap(claims(names))

    assert tokens(again) == ["ann"] * cable.batch
    assert is_so(again, names, straight)
    assert set(tokens(straight.swap(claims(names, "bob")))) == {"ann"}


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_the_same_holds_awaited(cable, proxy, straight, mishap):
    names = keys(cable)

    async def main() -> list[Reply]:
        store = aconnect(proxy.url)
        await store.get([NEW])
        proxy.arm(mishap, when=cable.write)
        assert is_unknown(await store.swap(claims(names)), cable)
        again = await store.swap(claims(names))
        await store.close()
        return list(again)

    again = asyncio.run(main())
    assert tokens(again) == ["ann"] * cable.batch
    assert is_so(again, names, straight)


def test_a_silent_cable_is_unknown_after_a_while(cable, proxy, hasty, straight):
    with closing(connect(hasty)) as store:
        store.get([NEW])
        proxy.arm(Silence(), when=cable.write)
        assert is_unknown(store.swap(claims(keys(cable))), cable)
        assert straight.get([NEW]) == [NOTHING]
        assert tokens(store.swap(claims(keys(cable)))) == ["ann"] * cable.batch


def test_a_late_reply_is_never_taken_for_the_next_one(cable, proxy, hasty):
    with closing(connect(hasty)) as store:
        store.get([NEW])
        proxy.arm(Delay(30.0, "reply"), when=cable.write)
        assert is_unknown(store.swap(claims(keys(cable))), cable)
        proxy.release()
        assert store.get([NEW]) == [NOTHING]


@pytest.mark.parametrize("mishap", BREAKS, ids=str)
def test_a_look_on_a_breaking_cable_says_that_it_was_not_answered(cable, proxy, mishap):
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        proxy.arm(mishap, when=cable.look)
        with pytest.raises(Unanswered):
            store.get(keys(cable))
        assert store.get([NEW]) == [NOTHING]


@pytest.mark.parametrize("mishap", [Drop(), Swallow(), Reset(20, "request"), Reset(3, "reply")], ids=str)
def test_a_cable_that_breaks_while_a_connection_is_made_ready_says_that_nothing_was_asked(
    cable, proxy, mishap
):
    for word in cable.opening:
        with closing(connect(proxy.url)) as store:
            proxy.arm(mishap, when=word)
            with pytest.raises(Unreachable, match="nothing was asked") as raised:
                store.swap(claims([NEW]))
            assert not isinstance(raised.value, Unanswered)
            assert proxy.armed == 0
            assert tokens(store.swap(claims([NEW]))) == ["ann"]


def test_a_server_behind_a_cut_cable_is_unreachable_until_it_is_healed(proxy, hasty):
    with closing(connect(hasty)) as store:
        first = store.swap(claims([NEW]))
        proxy.cut()
        with pytest.raises(Unreachable, match=r"cannot be reached.*nothing was asked"):
            until_unreachable(store)
        proxy.heal()
        assert tokens(store.swap(claims([NEW], "bob"))) == tokens(first)


def until_unreachable(store: Store) -> None:
    """Ask until the break is known: what was under way when it came is unknown."""
    while store.swap(claims([NEW])) == [UNKNOWN]:
        pass


def test_the_cable_may_break_anywhere_in_a_request_and_in_its_reply(cable, proxy, straight):
    with closing(connect(proxy.url)) as store:
        store.get([NEW])
        for at in range(1, 330, cable.stride):
            for direction in ("request", "reply"):
                names = sorted((Key(f"{direction} {at}", n) for n in range(2)), key=lambda key: key.id)
                proxy.arm(Reset(at, direction), when=cable.write)
                assert is_so(store.swap(claims(names)), names, straight)
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


def at_random_account(store: Store, straight: Store, seed: int, turns: int) -> Account:
    account, chance, names = Account(straight), Random(seed), FEW
    for turn in range(turns):
        some = names[: chance.choice((1, 3))]
        wanted = entry(chance.choice(STATES), f"turn {turn}", body=str(turn))
        versions = [seen.entry.version if seen.entry else None for seen in straight.get(some)]
        account.take(
            store, [Change(name, version, wanted) for name, version in zip(some, versions, strict=True)]
        )
    return account


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_behind_a_cable_that_breaks_at_random_no_lie_is_told(cable, url, straight, seed):
    with Proxy.before(url, at_random(seed, cable.rate)) as proxy, closing(connect(proxy.url)) as store:
        account = at_random_account(store, straight, seed, cable.turns)

    assert account.lies == []
    assert min(account.known, account.unknown) >= 5, "both were met"
    assert account.refused >= cable.refused


class Hopeful:
    """A store that takes what was not answered for not done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.get, self.scan, self.close = store.get, store.scan, store.close

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        replies = self._store.swap(changes)
        if UNKNOWN in replies:
            raise Unreachable("nothing was written, it hopes")
        return replies


class Fearless(Hopeful):
    """A store that takes what was not answered for done."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        told = zip(changes, self._store.swap(changes), strict=True)
        return [Seen(change.entry) if reply is UNKNOWN else reply for change, reply in told]


@every_day_on("redis")
@pytest.mark.parametrize("kind", [Hopeful, Fearless])
def test_a_store_that_guesses_is_found_out(cable, url, straight, kind):
    with Proxy.before(url, at_random(1, cable.rate)) as proxy, closing(kind(connect(proxy.url))) as store:
        assert at_random_account(store, straight, 1, cable.turns).lies != []
