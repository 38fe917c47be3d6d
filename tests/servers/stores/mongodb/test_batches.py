"""Batches on a real MongoDB: read the clock, write plain documents, look only at what may be lost.

Between any two commands of a batch another worker may write, the connection may break, or time may pass. A
tap before each command makes these happen at a chosen place.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core import protocol
from onefold.core.claims import Bid
from onefold.core.entry import NOTHING, STATES, UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from onefold.core.terms import Terms
from onefold.drive import Event, Ports, Tap, arun, run
from onefold.testing.clock import FakeClock
from onefold.testing.contract.words import entry, in_order
from onefold.testing.proxy import Drop, Mishap, Proxy, Swallow

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold.stores.mongodb import connect
from onefold.stores.mongodb.client import AsyncClient, Client
from onefold.stores.mongodb.plan import MongoPlan
from onefold.stores.shells import Clients
from tests.servers.stores.mongodb.ledgers import Server, by_hand, timed
from tests.servers.stores.words import claims, keys, stored, tokens

pytestmark = pytest.mark.store("mongodb")

Swap = Callable[..., Sequence[Reply]]

EPHEMERAL = 1e-6
"""Seconds to keep a done entry so short that it has expired as soon as the clock moves on."""


def swap_blocking(
    url: str, changes: Sequence[Change], tap: Tap | None = None, plan: MongoPlan | None = None
) -> Sequence[Reply]:
    with closing(Client(url)) as client:
        client.execute({"ping": 1})
        return run((plan or MongoPlan()).swap(changes), Clients(client, tap))


def swap_awaited(
    url: str, changes: Sequence[Change], tap: Tap | None = None, plan: MongoPlan | None = None
) -> Sequence[Reply]:
    async def main() -> Sequence[Reply]:
        client = AsyncClient(url)
        await client.execute({"ping": 1})
        try:
            return await arun((plan or MongoPlan()).swap(changes), Clients(client, tap))
        finally:
            await client.close()

    return asyncio.run(main())


@pytest.fixture(params=[swap_blocking, swap_awaited], ids=["blocking", "awaited"])
def swap(request: pytest.FixtureRequest) -> Swap:
    """Send one batch through a client of its own, which is connected before the batch starts."""
    chosen: Swap = request.param
    return chosen


@pytest.fixture
def other(mongodb_url: str) -> Iterator[Any]:
    """Another worker's store."""
    with closing(connect(mongodb_url)) as store:
        store.get(keys(1))
        yield store


def before(command: str, act: Callable[[], object], number: int = 1) -> Tap:
    """Act immediately before the first command of this name is sent, or a later one."""
    seen = 0

    def tap(event: Event) -> None:
        nonlocal seen
        if event.seconds is None and command in event.call.args[0]:
            seen += 1
            if seen == number:
                act()

    return tap


def entries(replies: Sequence[Reply]) -> list[Entry | None]:
    return [reply.entry if isinstance(reply, Seen) else None for reply in replies]


def documents_of(url: str) -> dict[bytes, dict[str, Any]]:
    """Read all documents as the server has them."""
    with Server(url) as database:
        return {bytes(found["_id"]): found for found in database.onefold_entries.find()}


def wait_for_clock(store: Any, key: Key) -> None:
    """Return when the server's clock has moved on since a key was written."""
    while store.get([key])[0].idle < 0.001:
        pass


# ----- another worker writes between the commands of a batch


def test_an_insert_loses_to_a_document_that_came_after_the_clock_was_read(mongodb_url, swap, other):
    names = keys(5)
    replies = swap(
        mongodb_url, claims(names), before("insert", lambda: other.swap(claims(names[1:3], "bob")))
    )

    assert tokens(replies) == ["ann", "bob", "bob", "ann", "ann"]
    assert entries(replies) == entries(other.get(names))


@pytest.mark.parametrize("settles", [False, True], ids=["update", "settle"])
def test_an_update_loses_to_one_that_came_after_the_clock_was_read(mongodb_url, swap, other, settles):
    names = keys(4)
    held = [stored(reply) for reply in other.swap(claims(names))]
    ends = [
        Change(name, was.version, replace(was, state="done", body="1"), settles=settles)
        for name, was in zip(names, held, strict=True)
    ]
    stolen = Change(names[2], held[2].version, entry("held", "bob"))
    replies = swap(mongodb_url, ends, before("update", lambda: other.swap([stolen])))

    assert [stored(reply).state for reply in replies] == ["done", "done", "held", "done"]
    assert tokens(replies) == ["ann", "ann", "bob", "ann"]
    assert entries(replies) == entries(other.get(names))


def test_a_loser_whose_rival_is_removed_before_the_look_hears_that_nothing_is_stored(
    mongodb_url, swap, other
):
    names = keys(3)
    other.swap(claims(names[:1], "bob"))

    def remove() -> None:
        with Server(mongodb_url) as database:
            database.onefold_entries.delete_one({"_id": names[0].id})

    replies = swap(mongodb_url, claims(names), before("find", remove, number=2))

    assert replies[0] == NOTHING
    assert tokens(replies) == [None, "ann", "ann"]


def test_a_batch_may_insert_settle_update_and_remove_and_lose_some_of_each(mongodb_url, swap, other):
    names = [Key("mixed", number) for number in range(8)]
    new, taken, settled, stale_settle, renewed, stale_renewal, gone, kept = names
    first = {
        change.key: stored(reply)
        for change in claims([taken, settled, stale_settle, renewed, stale_renewal, gone, kept])
        for reply in other.swap([change])
    }
    for name, keep in ((gone, EPHEMERAL), (kept, 3600.0)):
        [done] = other.swap([Change(name, first[name].version, entry("done"), keep=keep)])
        first[name] = stored(done)
    wait_for_clock(other, gone)
    batch = in_order(
        [
            Change(new, None, entry("held", "eve")),
            Change(taken, None, entry("held", "eve")),
            Change(settled, first[settled].version, replace(first[settled], state="done"), settles=True),
            Change(stale_settle, 7, replace(first[stale_settle], state="done"), settles=True),
            Change(renewed, first[renewed].version, first[renewed]),
            Change(stale_renewal, 7, first[stale_renewal]),
            Change(gone, first[gone].version, None),
            Change(kept, first[kept].version, None),
        ]
    )
    replies = {change.key: reply for change, reply in zip(batch, swap(mongodb_url, batch), strict=True)}

    assert tokens([replies[new], replies[taken]]) == ["eve", "ann"]
    assert stored(replies[settled]).state == "done"
    assert stored(replies[renewed]).version == first[renewed].version + 1
    assert replies[gone] == NOTHING
    for name in (taken, stale_settle, stale_renewal, kept):
        assert stored(replies[name]) == first[name], "it lost, and nothing was written"
    assert entries([replies[name] for name in names]) == entries(other.get(names))


def test_a_purge_is_one_command_and_a_look_only_where_something_stays(mongodb_url, swap, other):
    one, two = keys(2)
    done = [Change(name, None, entry("done"), keep=EPHEMERAL) for name in (one, two)]
    versions = [stored(reply).version for reply in other.swap(done)]
    wait_for_clock(other, one)
    sent: list[str] = []

    def note(event: Event) -> None:
        if event.seconds is None:
            sent.append(next(iter(event.call.args[0])))

    assert swap(mongodb_url, [Change(one, versions[0], None)], note) == [NOTHING]
    removals = [Change(one, versions[0], None), Change(two, versions[1], None)]
    assert swap(mongodb_url, removals, note) == [NOTHING, NOTHING]
    assert sent == ["delete", "delete", "find"]


def test_an_empty_batch_sends_nothing(mongodb_url, swap):
    def fail(event: Event) -> None:
        pytest.fail(f"it sent {event.call.args}")

    assert swap(mongodb_url, [], fail) == []


# ----- a connection that breaks


def armed(proxy: Proxy, command: str, mishap: Mishap, number: int = 1) -> Tap:
    """Have a command of a batch suffer this; by its name, because the client also asks how the server is."""
    return before(command, lambda: proxy.arm(mishap, when=b"\x02%b\0" % command.encode()), number)


@pytest.fixture
def proxy(mongodb_url: str, other: Any) -> Iterator[Proxy]:
    with Proxy.before(mongodb_url) as proxy:
        yield proxy


@pytest.mark.parametrize("mishap", [Swallow(), Drop()], ids=str)
def test_a_clock_that_is_not_answered_leaves_a_batch_unknown_and_unwritten(proxy, other, swap, mishap):
    names = keys(3)
    assert swap(proxy.url, claims(names), armed(proxy, "find", mishap)) == [UNKNOWN] * 3

    assert other.get(names) == [NOTHING] * 3
    assert tokens(swap(proxy.url, claims(names))) == ["ann"] * 3


@pytest.mark.parametrize(("mishap", "written"), [(Swallow(), "ann"), (Drop(), None)], ids=str)
def test_a_write_that_is_not_answered_is_unknown_and_won_once_when_asked_again(
    proxy, other, swap, mishap, written
):
    names = keys(3)
    assert swap(proxy.url, claims(names), armed(proxy, "insert", mishap)) == [UNKNOWN] * 3

    assert tokens(other.get(names)) == [written] * 3
    again = swap(proxy.url, claims(names))
    assert tokens(again) == ["ann"] * 3
    assert entries(again) == entries(other.get(names))


@pytest.mark.parametrize("mishap", [Swallow(), Drop()], ids=str)
def test_a_look_that_is_not_answered_leaves_only_the_losers_unknown(proxy, other, swap, mishap):
    names = keys(4)
    other.swap(claims(names[:2], "bob"))
    replies = swap(proxy.url, claims(names), armed(proxy, "find", mishap, number=2))

    assert replies[:2] == [UNKNOWN, UNKNOWN]
    assert entries(replies[2:]) == entries(other.get(names[2:]))
    assert tokens(swap(proxy.url, claims(names))) == ["bob", "bob", "ann", "ann"]


def test_what_was_answered_before_a_break_stays_known(proxy, other, swap):
    new, *later = names = keys(3)
    held = [stored(reply) for reply in other.swap(claims(later))]
    batch = claims([new]) + [
        Change(name, was.version, replace(was, state="done"), settles=True)
        for name, was in zip(later, held, strict=True)
    ]
    batch = in_order(batch)
    told = {
        change.key: reply
        for change, reply in zip(
            batch, swap(proxy.url, batch, armed(proxy, "update", Swallow())), strict=True
        )
    }

    assert stored(told[new]) == stored(other.get([new])[0])
    assert [told[name] for name in later] == [UNKNOWN] * 2
    again = swap(proxy.url, batch)
    assert entries(again) == entries(other.get(names))
    assert [stored(reply).state for reply in other.get(later)] == ["done"] * 2


def test_a_later_command_that_finds_no_server_does_not_hide_what_was_written(mongodb_url, swap, other):
    """The connection is cut between two writes of a batch, and cannot be made again."""
    [new, later] = keys(2)
    [held] = other.swap(claims([later]))
    batch = in_order([*claims([new]), Change(later, stored(held).version, entry("done"))])
    with Proxy.before(mongodb_url) as proxy:
        hasty = f"{proxy.url}&serverSelectionTimeoutMS=300"
        told = dict(
            zip(
                [change.key for change in batch],
                swap(hasty, batch, before("update", proxy.cut)),
                strict=True,
            )
        )

    assert stored(told[new]) == stored(other.get([new])[0])
    assert told[later] is UNKNOWN
    assert other.get([later])[0].entry == stored(held)


# ----- large bodies


LARGE = "x" * 65_536


def test_a_thousand_of_the_largest_bodies_leave_in_several_commands(mongodb_url, swap, other):
    names, sent = keys(1000), []

    def count(event: Event) -> None:
        if event.seconds is None:
            sent.append(next(iter(event.call.args[0])))

    replies = swap(f"{mongodb_url}&socketTimeoutMS=60000", claims(names, body=LARGE), count)

    assert tokens(replies) == ["ann"] * 1000
    assert sent == ["find", *["insert"] * 5]
    with Server(mongodb_url) as database:
        assert database.onefold_entries.count_documents({"token": "ann", "body": LARGE}) == 1000
    assert stored(replies[-1]) == stored(other.get(names[-1:])[0])


def test_losers_with_large_bodies_come_back_whole(mongodb_url, swap, other):
    """Together they are more than one answer of the server can hold."""
    names = keys(270)
    other.swap(claims(names, "bob", body=LARGE))
    replies = swap(f"{mongodb_url}&socketTimeoutMS=60000", claims(names))

    assert {(stored(reply).token, stored(reply).body) for reply in replies} == {("bob", LARGE)}


def test_a_break_after_some_commands_leaves_only_the_rest_unknown(proxy, other, swap):
    names = keys(500)
    url = f"{proxy.url}&socketTimeoutMS=60000"
    replies = swap(url, claims(names, body=LARGE), armed(proxy, "insert", Swallow(), number=2))
    known = [reply is not UNKNOWN for reply in replies]
    found = other.get(names)

    first = known.index(False)
    assert 0 < first < 500
    assert not any(known[first:])
    assert entries(replies[:first]) == entries(found[:first])
    assert tokens(swap(url, claims(names, body=LARGE))) == ["ann"] * 500


# ----- what is written


def _wanted() -> Iterator[tuple[Change, Change | None]]:
    """Make first writes and what follows them, in every state and with every time that a store sets."""
    for number, (state, begin, delay, keep) in enumerate(
        product(STATES, (False, True), (None, 2.5), (None, 0.25, 86_401.123, 1e15))
    ):
        text = "$token" if number % 2 else "a.b\0c"
        wanted = entry(
            state,
            text,
            lease=(0.25, 60)[number % 2],
            fence=(0, 5)[number // 2 % 2],
            begun=(None, 1.5)[number // 4 % 2],
            attempt=number,
            fingerprint=(None, text)[number // 2 % 2],
            label=text,
            source=text,
            body=(None, "", "{'$set': 1}")[number % 3],
        )
        first = Change(Key("$scope", number), None, wanted, begin, delay, keep)
        yield first, None
        yield first, replace(first, expected=0)
        yield first, replace(first, expected=0, settles=True)


WANTED = [*_wanted()]


def test_a_batch_writes_the_documents_that_single_writes_make(mongodb_url, swap):
    """To the last field and its type, whichever way an entry was written."""
    clock = FakeClock()
    moved = FakeClock(clock() + 7.25)
    firsts, seconds = [], []
    for number, (first, second) in enumerate(WANTED):
        key = Key("$scope", number)
        firsts.append(replace(first, key=key))
        if second:
            version = int(clock() * 1_000_000)
            # A settle changes what ends an attempt. Before it the entry was held, with the same other fields.
            assert first.entry
            firsts[-1] = Change(key, None, replace(first.entry, state="held", why=None, body="before"))
            fence = first.entry.fence or version
            seconds.append(
                replace(second, key=key, expected=version, entry=replace(first.entry, fence=fence))
            )
    with closing(timed(mongodb_url, clock)) as store:
        one_by_one = [store.swap([change])[0] for change in firsts]
    with closing(timed(mongodb_url, moved)) as store:
        one_by_one += [store.swap([change])[0] for change in seconds]
    singly = documents_of(mongodb_url)
    with Server(mongodb_url) as database:
        database.onefold_entries.delete_many({})

    def batched(changes: Sequence[Change], at: FakeClock) -> list[Reply]:
        order = sorted(range(len(changes)), key=lambda place: changes[place].key.id)
        told = swap(mongodb_url, [changes[place] for place in order], plan=by_hand(at))
        return [reply for _, reply in sorted(zip(order, told, strict=True), key=lambda pair: pair[0])]

    together = batched(firsts, clock) + batched(seconds, moved)

    assert together == one_by_one
    assert documents_of(mongodb_url) == singly
    types = [{name: type(value) for name, value in found.items()} for found in singly.values()]
    found = documents_of(mongodb_url)
    assert [{name: type(value) for name, value in found[id].items()} for id in singly] == types


@pytest.mark.parametrize("body", [None, "$receipt"])
@pytest.mark.parametrize("keep", [None, 3600.0])
def test_a_settle_leaves_every_other_field_as_it_is_stored(mongodb_url, swap, other, body, keep):
    names = keys(2)
    held = [
        stored(reply)
        for reply in other.swap(claims(names, body="record", source="$s", fingerprint="f", begun=1.5))
    ]
    with Server(mongodb_url) as database:
        database.onefold_entries.update_many({}, {"$set": {"lease": 77, "added.by": "an operator"}})
    was = documents_of(mongodb_url)
    ends = [
        Change(name, mine.version, replace(mine, state="done", body=body), keep=keep, settles=True)
        for name, mine in zip(names, held, strict=True)
    ]
    replies = swap(mongodb_url, ends)
    now = documents_of(mongodb_url)

    changed = {"state", "version", "written", "body", "due"} | ({"expires", "ttl"} if keep else set())
    for name, reply in zip(names, replies, strict=True):
        assert {
            field
            for field in was[name.id].keys() | now[name.id].keys()
            if was[name.id].get(field) != now[name.id].get(field)
        } == changed
        assert {"due", *(["body"] if body is None else [])}.isdisjoint(now[name.id])
        assert now[name.id]["lease"] == 77
        assert now[name.id]["version"] == stored(reply).version == was[name.id]["version"] + 1


@pytest.mark.parametrize("text", ["$version", "$$ROOT", "a.b", "{'$gt': ''}", "\0"])
def test_updates_and_settles_take_the_texts_of_callers_literally(mongodb_url, swap, other, text):
    names = keys(4)
    held = other.swap(claims(names, text, source=text, fingerprint=text))
    batch = [
        Change(name, stored(was).version, replace(stored(was), state="done", body=text), settles=at < 2)
        for at, (name, was) in enumerate(zip(names, held, strict=True))
    ]
    for reply in (*swap(mongodb_url, batch), *other.get(names)):
        done = stored(reply)
        assert (done.state, done.token, done.source, done.fingerprint, done.body) == ("done", *[text] * 4)


# ----- the clock is read before the write


def test_a_ledger_without_its_note_is_refused_with_nothing_written(mongodb_url, swap, other):
    names = keys(2)

    def lose() -> None:
        with Server(mongodb_url) as database:
            database.onefold_meta.delete_many({})

    with pytest.raises(Misconfigured, match=r"note .* in onefold_meta is gone; nothing was written"):
        swap(mongodb_url, claims(names), before("find", lose))
    assert other.get(names) == [NOTHING] * 2
    assert tokens(swap(mongodb_url, claims(names))) == ["ann"] * 2, "whoever connects writes it again"


@contextmanager
def slow_writes(url: str, clock: FakeClock, seconds: float) -> Iterator[Any]:
    """Open a store on the clock of a test, before each of whose inserts and updates time passes."""
    with closing(Client(url)) as client:

        def tap(event: Event) -> None:
            if event.seconds is None and not {"insert", "update"}.isdisjoint(event.call.args[0]):
                clock.sleep(seconds)

        class Slow:
            def get(self, names: Sequence[Key]) -> Sequence[Seen]:
                return run(by_hand(clock).get(names), Clients(client))

            def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
                return run(by_hand(clock).swap(changes), Clients(client, tap))

        client.execute({"ping": 1})
        yield Slow()


@pytest.mark.parametrize("pause", [0.0, 5.0, 59.0, 61.0, 600.0])
def test_however_late_the_write_comes_nobody_takes_over_while_the_holder_may_start(mongodb_url, pause):
    """A lease counts from before the first send; the clock is read after it. So the holder stops first."""
    clock, terms = FakeClock(), Terms(lease=60)
    started, offset = clock.monotonic(), clock() - clock.monotonic()
    mine = [Bid(name, "ann", terms, effect="idempotent") for name in keys(2)]
    theirs = [replace(bid, token="bob") for bid in mine]
    with slow_writes(mongodb_url, clock, pause) as slow, closing(timed(mongodb_url, clock)) as quick:
        won = run(protocol.claim(mine), Ports(slow, clock))
        assert [answer.state for answer in won] == ["won", "won"]
        for answer in won:
            assert answer.entry
            assert answer.since == started <= answer.entry.written - offset
        deadline = max(protocol.stop_by(answer.since, terms) for answer in won)
        states = []
        while "won" not in states:
            states = [answer.state for answer in run(protocol.claim(theirs), Ports(quick, clock))]
            if "won" not in states:
                clock.sleep(0.5)

    assert clock.monotonic() >= deadline + terms.margin, "the whole lease was over, and not just the start"


def test_after_a_removal_a_slow_insert_may_repeat_a_version_and_a_late_settle_does_not_touch_it(
    mongodb_url, swap
):
    """Ann reads the clock; Bob claims, settles and is purged; then Ann's insert arrives.

    Ann's entry gets the version that Bob's claim had. Bob's settle, sent again because its first reply was
    lost, carries that version too, and must not settle Ann's claim. Its token tells them apart.
    """
    clock = FakeClock()
    names = keys(2)
    settles: list[Change] = []

    def live_and_be_forgotten() -> None:
        with closing(timed(mongodb_url, clock)) as store:
            held = store.swap(claims(names, "bob"))
            settles.extend(
                Change(name, stored(was).version, replace(stored(was), state="done"), keep=1.0, settles=True)
                for name, was in zip(names, held, strict=True)
            )
            done = store.swap(settles)
            clock.sleep(2.0)
            gone = [Change(name, stored(was).version, None) for name, was in zip(names, done, strict=True)]
            assert store.swap(gone) == [NOTHING, NOTHING]

    replies = swap(mongodb_url, claims(names), before("insert", live_and_be_forgotten), plan=by_hand(clock))
    assert tokens(replies) == ["ann", "ann"]
    assert [stored(reply).version for reply in replies] == [change.expected for change in settles]

    for late in (settles, settles[:1]):
        told = swap(mongodb_url, late, plan=by_hand(clock))
        assert entries(told) == entries(replies[: len(late)])
    with closing(timed(mongodb_url, clock)) as store:
        assert entries(store.get(names)) == entries(replies)


def test_versions_grow_over_a_removal_that_the_insert_comes_after(mongodb_url, swap, other):
    """Whoever reads the clock after an entry was removed starts above all of its versions."""
    names = keys(2)
    held = other.swap(claims(names))
    done = other.swap(
        [
            Change(name, stored(was).version, entry("done"), keep=EPHEMERAL)
            for name, was in zip(names, held, strict=True)
        ]
    )
    wait_for_clock(other, names[-1])
    gone = [Change(name, stored(was).version, None) for name, was in zip(names, done, strict=True)]
    assert other.swap(gone) == [NOTHING, NOTHING]
    again = swap(mongodb_url, claims(names, "bob"))

    for was, now in zip(done, again, strict=True):
        assert stored(now).version == stored(now).fence > stored(was).version
