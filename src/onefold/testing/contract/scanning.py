"""What a store promises about scans: what was asked for, all of it, once, page by page."""

from __future__ import annotations

from itertools import combinations

from onefold.core.entry import NOTHING, OPEN, STATES, Change, Entry, Seen, State
from onefold.core.flow import Found, scan, sleep
from onefold.core.key import Key
from onefold.testing.contract.stage import Stage, promise
from onefold.testing.contract.words import (
    ALL,
    LONG,
    SPAN,
    entry,
    ids,
    in_order,
    key,
    keys,
    look,
    put,
    send,
    tell,
    walk,
)

LIMITS = (1, 2, 3, 7, 12, 13, 1000)

STILL = 20
"""So often a machine may stand still at the same moment before the store is to blame."""


async def _fill(count: int, *states: State, scope: str = "contract") -> list[Key]:
    """Write entries that share one moment, and with it every time that a store could sort them by."""
    names = keys(count, scope)
    wanted = [entry(states[at % len(states)], label=name.label) for at, name in enumerate(names)]
    await send([Change(name, None, asked) for name, asked in zip(names, wanted, strict=True)])
    return names


@promise
async def a_scan_of_nothing_ends_at_once(stage: Stage) -> None:
    for states in (("held",), OPEN, ("done",), ALL):
        assert [*(await scan(None, states, False, None, 10))[0]] == []
        assert (await scan("contract", states, True, None, 10))[1] is None


@promise
async def a_scan_lists_one_scope_and_no_other(stage: Stage) -> None:
    mine = await _fill(8, *ALL, scope="mine")
    await _fill(8, *ALL, scope="yours")
    await _fill(8, *ALL, scope="min")

    assert ids(await walk("mine")) == sorted(name.id for name in mine)
    assert await walk("nobody's") == []


@promise
async def a_scan_without_a_scope_lists_all_scopes(stage: Stage) -> None:
    names = await _fill(8, *ALL, scope="mine") + await _fill(8, *ALL, scope="yours")
    found = await walk(None)

    assert ids(found) == sorted(name.id for name in names)
    assert {name.scope for name, _ in found} == {"mine", "yours"}


@promise
async def a_scan_lists_the_states_asked_for_and_no_others(stage: Stage) -> None:
    names = await _fill(12, *STATES)
    for count in range(1, 5):
        for states in combinations(STATES, count):
            wanted = {name.id for at, name in enumerate(names) if STATES[at % 4] in states}
            assert ids(await walk("contract", states)) == sorted(wanted)


@promise
async def a_scan_shows_what_a_look_shows(stage: Stage) -> None:
    names = await _fill(8, *ALL)
    await sleep(SPAN)
    for name, seen in await walk(None):
        now = await look(name)
        assert seen.entry == now.entry
        assert SPAN * 0.9 <= seen.idle <= now.idle
        assert (name.scope, name.label) == next((key.scope, key.label) for key in names if key == name), (
            "for people"
        )


@promise
async def what_a_scan_found_can_be_written(stage: Stage) -> None:
    await _fill(3, "free")
    changes = [
        Change(name, _version(seen), entry("done", "bob")) for name, seen in await walk(None, ("free",))
    ]
    replies = await send(in_order(changes))

    assert [seen.entry.token for seen in replies if seen.entry] == ["bob"] * 3
    assert len(await walk("contract", ("done",))) == 3


async def _due_before(name: Key, wanted: Entry, delay: float | None = None) -> list[Found]:
    """List what is due after an entry was written, and before it is itself: it is to be, a span later.

    Real time may pass between the write and the list, for as long as a machine stands still. If the entry had
    stood for a span by then, it is written anew.
    """
    seen = NOTHING
    for _ in range(STILL):
        expected = seen.entry.version if seen.entry else None
        await put(name, wanted, expected, delay=delay)
        found = await walk(None, (wanted.state,), due=True)
        seen = await look(name)
        if seen.idle < SPAN:
            return found
    raise AssertionError(
        f"what was written a moment ago is said to have stood for {seen.idle:g} s, each time"
    )


@promise
async def a_held_entry_is_due_when_its_lease_is_over(stage: Stage) -> None:
    await put(key("long"), entry("held", lease=LONG))
    assert ids(await _due_before(key("short"), entry("held", lease=SPAN))) == []
    await sleep(SPAN * 2)

    assert ids(await walk(None, ("held",), due=True)) == [key("short").id]
    assert ids(await walk("contract", OPEN, due=True)) == [key("short").id]


@promise
async def a_free_entry_is_due_when_its_delay_is_over(stage: Stage) -> None:
    await put(key("now"), entry("free"))
    await put(key("late"), entry("free"), delay=LONG)
    assert ids(await _due_before(key("soon"), entry("free"), delay=SPAN)) == [key("now").id]
    await sleep(SPAN * 2)

    assert ids(await walk(None, ("free",), due=True)) == sorted([key("now").id, key("soon").id])
    assert len(await walk("contract", OPEN, due=True)) == 2


@promise
async def a_parked_entry_is_always_due_and_a_done_one_never(stage: Stage) -> None:
    await put(key("parked"), entry("parked"))
    await put(key("done"), entry("done"), keep=SPAN)
    await sleep(SPAN * 2)

    assert ids(await walk(None, ALL, due=True)) == [key("parked").id]
    assert await walk(None, ("done",), due=True) == []


@promise
async def what_is_not_due_is_listed_where_nobody_asks_for_due(stage: Stage) -> None:
    await put(key("held"), entry("held", lease=LONG))
    await put(key("free"), entry("free"), delay=LONG)

    assert ids(await walk(None, OPEN)) == sorted([key("held").id, key("free").id])


@promise
async def renewing_a_claim_makes_it_due_later(stage: Stage) -> None:
    held = await put(key(1), entry("held", lease=SPAN))
    await sleep(SPAN * 2)
    await put(key(1), entry("held", lease=LONG), held.version)

    assert await walk(None, ("held",), due=True) == []


@promise
async def pages_of_any_size_show_everything_once(stage: Stage) -> None:
    # All share one moment: a page that ends between two of them must not lose or repeat one.
    names = await _fill(13, "held", scope="mine") + await _fill(12, *OPEN, scope="yours")
    for limit in LIMITS:
        assert ids(await walk(None, OPEN, limit=limit)) == sorted(name.id for name in names)
        assert ids(await walk("mine", ("held",), limit=limit)) == sorted(name.id for name in names[:13])


@promise
async def pages_of_entries_written_at_different_times_show_everything_once(stage: Stage) -> None:
    names = keys(9)
    for number, name in enumerate(names):
        await put(name, entry("free", lease=number), delay=SPAN * (number % 3))
        await sleep(SPAN / 10)
    await sleep(SPAN * 3)
    for limit in LIMITS:
        assert ids(await walk(None, OPEN, limit=limit)) == sorted(name.id for name in names)
        assert ids(await walk("contract", ("free",), due=True, limit=limit)) == sorted(
            name.id for name in names
        )


@promise
async def done_entries_are_walked_page_by_page(stage: Stage) -> None:
    done = await _fill(13, "done", scope="mine")
    everything = done + await _fill(12, *ALL, scope="yours")
    for limit in LIMITS:
        assert ids(await walk("mine", ("done",), limit=limit)) == sorted(name.id for name in done)
        assert ids(await walk(None, ALL, limit=limit)) == sorted(name.id for name in everything)


@promise
async def what_leaves_between_two_pages_does_not_hide_its_neighbours(stage: Stage) -> None:
    names = await _fill(10, "free")
    found: list[bytes] = []
    after: str | None = None
    while True:
        page, after = await scan("contract", ("free",), True, after, 3)
        found += [name.id for name, _ in page]
        await send(in_order(Change(name, _version(seen), entry("done")) for name, seen in page))
        if after is None:
            break

    assert sorted(found) == sorted(name.id for name in names)


@promise
async def an_entry_that_leaves_a_state_leaves_its_scan(stage: Stage) -> None:
    now = await put(key(1), entry("held"))
    for state in ("free", "parked", "held", "done", "free", "done"):
        now = await put(key(1), entry(state), now.version)
        for other in STATES:
            assert ids(await walk(None, (other,))) == [key(1).id] * (other == state)


@promise
async def a_refused_change_is_in_no_scan(stage: Stage) -> None:
    await put(key(1), entry("done"))
    await tell(Change(key(1), None, entry("parked", "bob")))
    await tell(Change(key(2), 1, entry("parked", "bob")))

    assert await walk(None, OPEN) == []


def _version(seen: Seen) -> int:
    assert seen.entry is not None
    return seen.entry.version
