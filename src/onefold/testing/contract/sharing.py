"""What a store promises to several callers at once, and to one caller later: one winner, nothing lost."""

from __future__ import annotations

from onefold.core.entry import Change, Entry, Seen
from onefold.core.flow import get
from onefold.core.key import Key
from onefold.testing.contract.stage import AnyStore, Stage, promise
from onefold.testing.contract.words import (
    ALL,
    entry,
    in_order,
    key,
    keys,
    look,
    put,
    send,
    stored,
    tell,
    walk,
)

CALLERS = 4
ROUNDS = 10


async def _insert_all(names: list[Key], token: str) -> list[Key]:
    """Try to be first on every key, one by one; return where it was."""
    return [name for name in names if (await _insert(name, token)).token == token]


async def _insert(name: Key, token: str) -> Entry:
    seen = await tell(Change(name, None, entry(token=token)))
    assert seen.entry is not None
    return seen.entry


async def _count_up(name: Key, token: str) -> None:
    """Add one, several times, each time on the version that was seen, until it is accepted."""
    for turn in range(ROUNDS):
        mine = f"{token}-{turn}"
        now = await stored(name)
        while now.token != mine:
            wanted = entry(token=mine, attempt=now.attempt + 1, body=mine, source=mine)
            seen = await tell(Change(name, now.version, wanted))
            assert seen.entry is not None
            assert seen.entry.token == seen.entry.body == seen.entry.source, (
                "half of one write and half of another"
            )
            now = seen.entry


def _race_to_insert(stage: Stage, handles: list[AnyStore]) -> None:
    names = keys(20)
    won = stage.together([(handle, _insert_all(names, f"caller {at}")) for at, handle in enumerate(handles)])

    assert sorted(name.id for mine in won for name in mine) == sorted(name.id for name in names), (
        "one winner per key"
    )


def _race_to_count(stage: Stage, handles: list[AnyStore]) -> None:
    first = stage.run(put(key("count"), entry(token="start", body="start", source="start")))
    stage.together([(handle, _count_up(key("count"), f"caller {at}")) for at, handle in enumerate(handles)])
    last = stage.run(stored(key("count")))

    assert last.attempt == ROUNDS * len(handles), "an accepted write was lost"
    assert last.version == first.version + last.attempt


@promise
def of_callers_that_insert_at_once_one_wins(stage: Stage) -> None:
    _race_to_insert(stage, [stage.share()] * CALLERS)


@promise
def of_callers_that_swap_at_once_one_wins(stage: Stage) -> None:
    _race_to_count(stage, [stage.share()] * CALLERS)


@promise
def of_handles_that_insert_at_once_one_wins(stage: Stage) -> None:
    _race_to_insert(stage, [stage.share(), stage.reopen(), stage.reopen()])


@promise
def of_handles_that_swap_at_once_one_wins(stage: Stage) -> None:
    _race_to_count(stage, [stage.share(), stage.reopen(), stage.reopen()])


@promise
def batches_sent_at_once_each_have_their_winners(stage: Stage) -> None:
    async def batch(token: str) -> list[str]:
        replies = await send(in_order(Change(name, None, entry(token=token)) for name in keys(50)))
        return [seen.entry.token for seen in replies if seen.entry]

    told = stage.together([(stage.share(), batch(f"caller {at}")) for at in range(CALLERS)])
    final = [seen.entry.token for seen in stage.run(_all(keys(50))) if seen.entry]

    assert all(answer == final for answer in told), "every caller hears who won"


@promise
def another_handle_sees_at_once_what_was_written(stage: Stage) -> None:
    other = stage.reopen()
    for turn, state in enumerate(ALL):
        mine = stage.run(put(key(turn), entry(state)))
        assert stage.run(stored(key(turn)), other) == mine
        yours = stage.run(put(key(turn), entry("done", "bob"), mine.version), other)
        assert stage.run(stored(key(turn))) == yours
    assert len(stage.run(walk(None, ("done",)))) == len(stage.run(walk(None, ("done",)), other)) == len(ALL)


@promise
def a_store_may_be_closed_twice(stage: Stage) -> None:
    stage.run(put(key(1), entry()))
    stage.close(stage.store)
    stage.close(stage.store)


@promise
def a_store_may_be_closed_before_it_was_used(stage: Stage) -> None:
    stage.close(stage.store)
    stage.close(stage.store)


@promise
def what_was_written_is_there_after_a_close(stage: Stage) -> None:
    written = {name: stage.run(put(name, entry(state))) for name, state in zip(keys(4), ALL, strict=True)}
    stage.close(stage.store)
    other = stage.reopen()

    for name, kept in written.items():
        assert stage.run(stored(name), other) == kept


@promise
def a_closed_store_opens_again_when_it_is_used(stage: Stage) -> None:
    stage.reopen()  # only where entries outlive a handle
    mine = stage.run(put(key(1), entry()))
    stage.close(stage.store)
    assert stage.run(stored(key(1))) == mine
    stage.close(stage.store)
    settled = stage.run(put(key(1), entry("done"), mine.version))

    assert stage.run(look(key(1))).entry == settled


async def _all(names: list[Key]) -> list[Seen]:
    return list(await get(names))
