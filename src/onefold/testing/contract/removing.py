"""What a store promises about removal: only what is done and expired, and on the version that was seen."""

from __future__ import annotations

from onefold.core.entry import NOTHING, OPEN, Change
from onefold.core.flow import sleep
from onefold.core.protocol import purge
from onefold.testing.contract.stage import Stage, promise
from onefold.testing.contract.words import LONG, SPAN, entry, key, keys, look, put, stored, tell, walk


@promise
async def what_is_done_and_expired_is_removed(stage: Stage) -> None:
    done = await put(key(1), entry("done"), keep=SPAN)
    await sleep(SPAN * 2)

    assert await tell(Change(key(1), done.version, None)) == NOTHING
    assert await look(key(1)) == NOTHING
    assert await walk(None) == []


@promise
async def what_has_not_expired_is_not_removed(stage: Stage) -> None:
    done = await put(key(1), entry("done"), keep=LONG)
    await sleep(SPAN)
    refused = await tell(Change(key(1), done.version, None))

    assert refused.entry == done
    assert await stored(key(1)) == done


@promise
async def what_is_kept_for_ever_is_never_removed(stage: Stage) -> None:
    done = await put(key(1), entry("done"))
    await sleep(SPAN)
    refused = await tell(Change(key(1), done.version, None))

    assert refused.entry == done
    assert await stored(key(1)) == done


@promise
async def nothing_is_removed_on_another_version(stage: Stage) -> None:
    first = await put(key(1), entry("held"))
    done = await put(key(1), entry("done"), first.version, keep=SPAN)
    await sleep(SPAN * 2)
    for version in (first.version, done.version + 1):
        refused = await tell(Change(key(1), version, None))
        assert refused.entry == done
    assert await stored(key(1)) == done


@promise
async def open_entries_are_never_removed(stage: Stage) -> None:
    for state in OPEN:
        # Even one that carries a time of forgetting, which no decision gives it.
        kept = await put(key(state), entry(state, lease=SPAN), keep=SPAN)
        await sleep(SPAN * 2)
        refused = await tell(Change(key(state), kept.version, None))
        assert refused.entry == kept
        assert await stored(key(state)) == kept


@promise
async def to_remove_what_is_absent_is_no_error(stage: Stage) -> None:
    assert await tell(Change(key(1), 1_700_000_000_000_000, None)) == NOTHING


@promise
async def what_is_written_after_a_removal_has_a_higher_version(stage: Stage) -> None:
    done = await put(key(1), entry("held"))
    for _ in range(5):
        done = await put(key(1), entry("done"), done.version, keep=SPAN)
    await sleep(SPAN * 2)
    assert await tell(Change(key(1), done.version, None)) == NOTHING
    again = await put(key(1), entry("held", "bob"))

    assert again.version > done.version
    assert again.fence == again.version


@promise
async def a_late_writer_cannot_bring_back_what_was_removed(stage: Stage) -> None:
    done = await put(key(1), entry("done"), keep=SPAN)
    await sleep(SPAN * 2)
    await tell(Change(key(1), done.version, None))

    assert await tell(Change(key(1), done.version, entry("done"))) == NOTHING
    assert await look(key(1)) == NOTHING


@promise
async def a_purge_removes_all_that_expired_and_nothing_else(stage: Stage) -> None:
    for number, name in enumerate(keys(20)):
        await put(name, entry("done"), keep=SPAN if number % 2 else LONG)
    await put(key("held"), entry("held"))
    # Where clocks differ, a purge waits until the entries have expired by all of them.
    await sleep(SPAN * 2 + 2 * stage.max_skew)

    assert await purge(page=3) == 10
    assert len(await walk(None)) == 11
    assert await purge(page=3) == 0
