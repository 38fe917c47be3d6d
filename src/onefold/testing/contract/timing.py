"""What a store promises about time: it alone assigns it, and says how long a version has stood."""

from __future__ import annotations

from onefold.core.entry import Change, Seen
from onefold.core.flow import get, sleep
from onefold.testing.contract.stage import Stage, promise
from onefold.testing.contract.words import LONG, SPAN, entry, key, look, put, stored, tell, walk


@promise
async def an_entry_carries_the_time_of_its_last_write(stage: Stage) -> None:
    first = await put(key(1), entry())
    assert stage.near(first.written)
    await sleep(SPAN)
    second = await put(key(1), entry(), first.version)

    assert stage.near(second.written)
    assert second.written >= first.written + SPAN * 0.9
    assert await stored(key(1)) == second


@promise
async def times_that_a_caller_writes_are_ignored(stage: Stage) -> None:
    for number, told in enumerate((1.0, 4e9)):
        first = await put(key(number), entry(written=told, not_before=told, expires=told))
        assert stage.near(first.written)
        assert (first.not_before, first.expires) == (None, None)
        second = await put(key(number), entry(written=told, not_before=told, expires=told), first.version)
        assert stage.near(second.written)
        assert (second.not_before, second.expires) == (None, None)
        assert await stored(key(number)) == second, "what is told is what is stored"
        assert (await look(key(number))).idle < LONG


@promise
async def begin_sets_when_the_effect_began(stage: Stage) -> None:
    claimed = await put(key(1), entry())
    assert claimed.begun is None
    await sleep(SPAN)
    begun = await put(key(1), entry(), claimed.version, begin=True)

    assert begun.begun is not None
    assert stage.near(begun.begun)
    assert await stored(key(1)) == begun


@promise
async def later_writes_keep_when_the_effect_began(stage: Stage) -> None:
    begun = await put(key(1), entry(), begin=True)
    await sleep(SPAN)
    renewed = await put(key(1), entry(begun=begun.begun), begun.version)
    settled = await put(key(1), entry("done", begun=begun.begun), renewed.version)

    assert begun.begun is not None
    assert begun.begun == renewed.begun == settled.begun == (await stored(key(1))).begun


@promise
async def a_delay_sets_the_time_of_the_next_attempt(stage: Stage) -> None:
    freed = await put(key(1), entry("free"), delay=LONG)

    assert freed.not_before is not None
    assert stage.near(freed.not_before - LONG)
    assert freed.expires is None
    assert await stored(key(1)) == freed


@promise
async def keep_sets_the_time_of_forgetting(stage: Stage) -> None:
    done = await put(key(1), entry("done"), keep=LONG)

    assert done.expires is not None
    assert stage.near(done.expires - LONG)
    assert done.not_before is None
    assert await stored(key(1)) == done


@promise
async def a_later_write_clears_both_times(stage: Stage) -> None:
    done = await put(key(1), entry("done"), keep=SPAN, delay=SPAN)
    await sleep(SPAN * 2)
    again = await put(key(1), entry("held"), done.version)

    assert (again.expires, again.not_before) == (None, None)
    assert await stored(key(1)) == again


@promise
async def an_expired_entry_is_never_hidden(stage: Stage) -> None:
    done = await put(key(1), entry("done", body="1"), keep=SPAN)
    await sleep(SPAN * 2)
    refused = await tell(Change(key(1), None, entry("held", "bob")))

    assert await stored(key(1)) == done
    assert refused.entry == done


@promise
async def idle_starts_at_nothing(stage: Stage) -> None:
    first = await tell(Change(key(1), None, entry()))
    assert first.entry is not None
    await sleep(SPAN)
    second = await tell(Change(key(1), first.entry.version, entry()))

    for seen in (second, await look(key(1))):
        assert seen.entry is not None
        assert seen.idle >= 0
        assert stage.near(seen.entry.written + seen.idle)


@promise
async def idle_grows_while_a_version_stands(stage: Stage) -> None:
    first = await put(key(1), entry())
    told = []
    for _ in range(3):
        await sleep(SPAN)
        told.append((await look(key(1))).idle)
        [got] = await get([key(1)])
        refused = await tell(Change(key(1), None, entry(token="bob")))
        assert got.entry == refused.entry == first
        assert refused.idle >= told[-1]

    assert all(idle >= SPAN * number * 0.9 for number, idle in enumerate(told, 1))


@promise
async def idle_is_the_stores_word_not_the_callers(stage: Stage) -> None:
    for number, written in enumerate((1.0, 4e9)):
        await put(key(number), entry(written=written))
        await sleep(SPAN)
        assert SPAN * 0.9 <= (await look(key(number))).idle < LONG


@promise
async def idle_is_never_negative_when_the_clock_jumps_back(stage: Stage) -> None:
    first = await put(key(1), entry())
    stage.jump(-LONG)
    seen = await look(key(1))
    refused = await tell(Change(key(1), None, entry(token="bob")))

    assert seen.entry == refused.entry == first
    assert seen.idle >= 0
    assert refused.idle >= 0


@promise
async def a_clock_that_jumped_back_does_not_stop_writes(stage: Stage) -> None:
    first = await put(key(1), entry())
    stage.jump(-LONG)
    second = await put(key(1), entry("done"), first.version)

    assert second.version == first.version + 1
    assert stage.near(second.written)


@promise
async def every_reply_says_how_far_apart_clocks_may_be(stage: Stage) -> None:
    for state in ("held", "done"):
        first = await tell(Change(key(state), None, entry(state)))
        refused = await tell(Change(key(state), None, entry(state, "bob")))
        assert first.entry is not None
        later = await tell(Change(key(state), first.entry.version, entry(state)))
        found = [seen for _, seen in await walk(None, (state,))]

        assert [*map(_skew, (first, refused, later, await look(key(state)), *found))] == [stage.max_skew] * 5


def _skew(seen: Seen) -> float:
    assert seen.entry is not None
    return seen.skew
