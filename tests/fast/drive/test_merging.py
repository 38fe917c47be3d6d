"""Group commit: what is asked while a call is under way leaves together in the next."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from onefold.core.entry import UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.line import LIMIT, Ask, Line
from onefold.core.sightings import Sightings
from onefold.drive import AsyncMerged, Inline, Merged
from onefold.drive.guard import Call
from onefold.stores.memory import MemoryStore


def change(name: int | str, token: str = "t") -> Change:
    return Change(Key("merge", name), None, Entry("held", token=token, lease=60.0))


def test_a_merge_is_bounded():
    line = Line()
    asks = [Ask([change(f"{at}-{n}") for n in range(LIMIT // 4)], lambda: None) for at in range(6)]
    for ask in asks:
        line.enter(ask)

    assert line.take(asks[0]) == asks[:4]
    assert list(line.waiting) == asks[4:]


def test_an_object_that_woke_up_in_another_process_starts_with_an_empty_queue():
    merged = Merged(MemoryStore())
    merged._queue.enter(Call(sys._getframe()))
    merged._process = -1

    assert merged.swap([change(1)])[0] is not UNKNOWN


def test_reads_and_lists_pass_through():
    merged = Merged(MemoryStore())
    merged.swap([change(1)])

    assert merged.get([Key("merge", 1)])[0].entry is not None
    assert len(merged.scan(None, ("held",), False, None, 5)[0]) == 1
    merged.close()


# ----- awaited


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until it is so."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to pass")


class AsyncGate:
    """A store that notes each call and lets it through only when told; some wait longer.

    `shut` names the calls that also wait for `later`.
    """

    def __init__(self, fail: Callable[[Sequence[Change]], Exception | None] = lambda _: None) -> None:
        self.store = MemoryStore()
        self.calls: list[int] = []
        self.entered = asyncio.Event()
        self.open, self.later = asyncio.Event(), asyncio.Event()
        self.shut: set[int] = set()
        self.fail = fail

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self.calls.append(len(changes))
        self.entered.set()
        await self.open.wait()
        if len(self.calls) in self.shut:
            await self.later.wait()
        error = self.fail(changes)
        if error:
            raise error
        return self.store.swap(changes)


async def await_together(gate: AsyncGate, changes: Sequence[Change]) -> list[Any]:
    merged = AsyncMerged(gate)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(merged.swap([changes[0]]))]
    await gate.entered.wait()
    tasks += [asyncio.create_task(merged.swap([one])) for one in changes[1:]]
    await until(lambda: len(merged._line.waiting) >= len(changes) - 1)
    gate.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_awaited_askers_leave_together_too():
    async def main() -> tuple[list[int], list[Any]]:
        gate = AsyncGate()
        heard = await await_together(gate, [change(n, token=f"t{n}") for n in range(1, 21)])
        return gate.calls, heard

    calls, heard = asyncio.run(main())
    assert calls == [1, 19]
    assert [reply[0].entry.token for reply in heard] == [f"t{n}" for n in range(1, 21)]


def test_awaited_askers_that_were_answered_together_leave_together_again():
    async def main() -> list[int]:
        gate = AsyncGate()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]

        async def ask(name: int) -> None:
            for again in range(3):
                await merged.swap([change(f"{name}-{again}")])

        tasks = [asyncio.create_task(ask(name)) for name in range(20)]
        await until(lambda: len(merged._line.waiting) >= 19)
        gate.open.set()
        await asyncio.gather(*tasks)
        return gate.calls

    # The first asker is alone before anybody knows of a crowd, and once more when the others are through.
    assert asyncio.run(main()) == [1, 20, 20, 19]


def test_an_awaited_asker_that_finds_no_crowd_any_more_goes_alone():
    async def main() -> tuple[bool, list[int]]:
        gate = AsyncGate()
        gate.open.set()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        merged._line.crowded = True
        await merged.swap([change(1)])
        return merged._line.crowded, gate.calls

    assert asyncio.run(main()) == (False, [1])


def test_a_leader_cancelled_while_it_lets_others_in_hands_the_lead_on():
    async def main() -> tuple[list[int], list[Any]]:
        gate = AsyncGate()
        gate.open.set()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        merged._line.crowded = True
        leader, other = (asyncio.create_task(merged.swap([change(n)])) for n in (1, 2))
        await until(lambda: len(merged._line.waiting) >= 2)
        leader.cancel()
        return gate.calls, [*await asyncio.gather(leader, other, return_exceptions=True)]

    calls, (leader, other) = asyncio.run(main())
    assert isinstance(leader, asyncio.CancelledError)
    assert other[0].entry.state == "held"
    assert calls == [1]


def test_an_awaited_merge_that_fails_is_split_too():
    poison = Key("merge", 3)

    async def main() -> list[Any]:
        gate = AsyncGate(
            lambda many: Unreachable("poison") if any(one.key == poison for one in many) else None
        )
        return await await_together(gate, [change(n) for n in range(1, 6)])

    heard = asyncio.run(main())
    assert [at for at, reply in enumerate(heard) if isinstance(reply, Unreachable)] == [2]


def test_a_cancelled_leader_leaves_the_others_with_unknown_and_the_lead():
    async def main() -> list[Any]:
        gate = AsyncGate()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        first = asyncio.create_task(merged.swap([change(1)]))
        await gate.entered.wait()
        others = [asyncio.create_task(merged.swap([change(n)])) for n in (2, 3, 4)]
        await until(lambda: len(merged._line.waiting) >= 3)
        gate.shut = {2}
        gate.open.set()
        await first
        await until(lambda: len(gate.calls) >= 2)
        others[0].cancel()
        heard = await asyncio.gather(*others, return_exceptions=True)
        later = await merged.swap([change(5)])
        return [*heard, later]

    leader, second, third, later = asyncio.run(main())
    assert isinstance(leader, asyncio.CancelledError)
    assert second == third == [UNKNOWN]
    assert later[0].entry.state == "held"


def test_a_cancelled_asker_leaves_the_line_and_hands_the_lead_on():
    async def main() -> tuple[list[int], list[Any]]:
        gate = AsyncGate()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        first = asyncio.create_task(merged.swap([change(1)]))
        await gate.entered.wait()
        second, third = (asyncio.create_task(merged.swap([change(n)])) for n in (2, 3))
        await until(lambda: len(merged._line.waiting) >= 2)
        # Handed the lead and cancelled in the same breath: the third must still be served.
        merged._line.hand_on()
        second.cancel()
        gate.open.set()
        return gate.calls, [*await asyncio.gather(first, second, third, return_exceptions=True)]

    calls, (first, second, third) = asyncio.run(main())
    assert isinstance(second, asyncio.CancelledError)
    assert third[0].entry.state == "held"
    assert first[0].entry.state == "held"
    assert calls == [1, 1]


def test_an_asker_cancelled_while_its_change_is_under_way_just_leaves():
    async def main() -> tuple[list[int], Any]:
        gate = AsyncGate()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        first = asyncio.create_task(merged.swap([change(1)]))
        await gate.entered.wait()
        leader, taken = (asyncio.create_task(merged.swap([change(n)])) for n in (2, 3))
        await until(lambda: len(merged._line.waiting) >= 2)
        gate.shut = {2}
        gate.open.set()
        await first
        await until(lambda: len(gate.calls) >= 2)
        taken.cancel()
        gate.later.set()
        heard = await leader
        await asyncio.gather(taken, return_exceptions=True)
        return gate.calls, heard

    calls, heard = asyncio.run(main())
    assert calls == [1, 2]
    assert heard[0].entry.state == "held"


def test_an_asker_cancelled_before_its_turn_is_not_sent():
    async def main() -> tuple[list[int], list[Any]]:
        gate = AsyncGate()
        merged = AsyncMerged(gate)  # type: ignore[arg-type]
        first = asyncio.create_task(merged.swap([change(1)]))
        await gate.entered.wait()
        second = asyncio.create_task(merged.swap([change(2)]))
        await until(lambda: bool(merged._line.waiting))
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        gate.open.set()
        await first
        return gate.calls, list(merged._line.waiting)

    assert asyncio.run(main()) == ([1], [])


def test_awaited_reads_and_lists_pass_through():
    async def main() -> tuple[Any, Any]:
        merged = AsyncMerged(Inline(MemoryStore()))
        await merged.swap([change(1)])
        seen = await merged.get([Key("merge", 1)])
        page = await merged.scan(None, ("held",), False, None, 5)
        await merged.close()
        return seen, page

    seen, page = asyncio.run(main())
    assert seen[0].entry is not None
    assert len(page[0]) == 1


# ----- what a process has watched itself


def test_a_version_that_was_watched_for_a_lease_is_known_to_be_idle():
    sightings = Sightings()
    theirs = Seen(Entry("held", token="theirs", version=5), 0.0)
    mine = [change(1, token="mine")]

    first = sightings.judge(mine, [theirs], now=100.0)
    later = sightings.judge(mine, [theirs], now=161.0)
    renewed = sightings.judge(mine, [Seen(Entry("held", token="theirs", version=6), 0.0)], now=170.0)

    assert [seen[0].idle for seen in (first, later, renewed)] == [0.0, 61.0, 0.0]  # type: ignore[union-attr]


def test_the_stores_own_clock_counts_if_it_knows_of_more():
    sightings = Sightings()

    [seen] = sightings.judge([change(1)], [Seen(Entry("held", token="theirs", version=5), 40.0)], now=100.0)

    assert isinstance(seen, Seen)
    assert seen.idle == 40.0


def test_only_claims_of_others_are_watched():
    sightings = Sightings()
    replies: list[Reply] = [
        UNKNOWN,
        Seen(None),
        Seen(Entry("held", token="mine", version=1)),
        Seen(Entry("done", token="theirs", version=1)),
        Seen(Entry("held", token="theirs", version=1)),
    ]
    changes = [*(change(n, token="mine") for n in range(1, 5)), Change(Key("merge", 9), 1, None)]

    sightings.judge(changes, replies, now=100.0)

    assert sightings._first == {}


def test_what_is_watched_is_bounded_and_the_oldest_goes_first():
    sightings = Sightings(limit=3)
    for n in range(1, 6):
        sightings.judge([change(n)], [Seen(Entry("held", token="theirs", version=1))], now=float(n))

    assert list(sightings._first) == [Key("merge", n).id for n in (3, 4, 5)]
