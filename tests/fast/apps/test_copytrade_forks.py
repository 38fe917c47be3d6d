"""Forks: what a fork moved is still one trade, and what it took away is retracted, once and late enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onefold.apps.copytrade.forks import Forks, Inclusion
from onefold.core.documents import named
from onefold.core.entry import Change, Reply
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.drive import Inline
from onefold.stores.memory import MemoryStore
from onefold.worlds.leaders import LEADERS, Deed
from onefold.worlds.matches import MILLION, Fill
from tests.fast.apps.copying import Script, Stage, retractions, settings, stage, worker
from tests.fast.worker.stage import run_until

DEPTH = 4
BOUGHT = Fill(LEADERS[0], str(10**70), "BUY", 100 * MILLION, 50 * MILLION)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def deed(number: int) -> Deed:
    return Deed("trade", f"0x{number:064x}", (BOUGHT,))


def listening(on: Stage, one: Any) -> bool:
    return bool(on.nodes[0].stream.connections and one.ready)


def heard(on: Stage, one: Any) -> Any:
    """Say that the worker has heard of the last head."""
    source = one.pipelines[0].sources["chain"]
    return lambda: source.head == on.chain.head.number


@pytest.mark.parametrize("tells_removed", [True, False], ids=["removed", "head-hashes"])
def test_a_trade_that_a_fork_took_away_is_retracted_once_after_depth_blocks(file, tells_removed):
    with stage(nodes=[{"tells_removed": tells_removed}]) as on:
        one = worker(settings(on, depth=DEPTH), file, ("chain",))
        early: list[Any] = []
        mine = on.chain.mine
        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))),
            (on.is_through, mine),
            (heard(on, one), lambda: on.chain.fork(2, {deed(1).transaction})),
            # A fork of two blocks is heard of at the first of them: from there on depth counts.
            *[(heard(on, one), mine)] * (DEPTH - 2),
            (heard(on, one), lambda: early.extend(retractions(file))),
            *[(heard(on, one), mine)] * 5,
            (lambda: len(retractions(file)) == 1, mine),
            (heard(on, one), lambda: None),
        )
        run_until(one, script)

    assert early == []
    [parked] = retractions(file)
    assert deed(1).transaction in (parked.body or "")
    assert on.copied().total() == 1


@pytest.mark.parametrize("tells_removed", [True, False], ids=["removed", "head-hashes"])
def test_a_transaction_that_a_fork_moved_to_another_block_is_still_one_trade(file, tells_removed):
    with stage(nodes=[{"tells_removed": tells_removed}]) as on:
        one = worker(settings(on, depth=DEPTH), file, ("chain",))
        mine = on.chain.mine
        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1), deed(2))),
            (on.is_through, mine),
            (heard(on, one), lambda: on.chain.fork(2)),
            *[(heard(on, one), mine)] * (2 * DEPTH + 2),
            (heard(on, one), lambda: on.leaders.act(deed(3))),
            (on.is_through, lambda: None),
        )
        run_until(one, script)

    assert on.copied() == on.wanted()
    assert retractions(file) == []
    assert one.tallies["copytrade"].total("retracted") == 0


@pytest.mark.parametrize("tells_removed", [True, False], ids=["removed", "head-hashes"])
def test_a_transaction_that_a_fork_dropped_before_its_receipt_came_is_not_waited_for(file, tells_removed):
    with stage(nodes=[{"tells_removed": tells_removed, "nulls": 10_000}]) as on:
        one = worker(settings(on, depth=DEPTH, receipt="10m"), file, ("chain",))
        node = on.nodes[0]

        def drop() -> None:
            on.chain.fork(1, {deed(1).transaction})
            node.nulls = 0
            on.leaders.act(deed(2))

        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))),
            (lambda: node.asked["eth_getTransactionReceipt"] > 0, drop),
            (lambda: on.copied().total() > 0, on.chain.mine),
            (heard(on, one), lambda: None),
        )
        run_until(one, script)

    assert [name.split("/")[1] for name in on.copied().elements()] == [deed(2).transaction]
    assert retractions(file) == []


def test_a_removed_log_is_no_trade_and_nobody_asks_for_its_receipt(file):
    with stage() as on:
        on.leaders.act(deed(1))
        for _ in range(15):
            on.chain.mine()
        one = worker(settings(on, depth=DEPTH, max_age="20s"), file, ("chain",))  # looks back ten blocks
        script = Script(
            (lambda: listening(on, one), lambda: on.chain.fork(16, {deed(1).transaction})),
            (heard(on, one), lambda: on.leaders.act(deed(2))),
            (lambda: on.copied().total() > 0, lambda: None),
        )
        run_until(one, script)

    assert [name.split("/")[1] for name in on.copied().elements()] == [deed(2).transaction]
    assert on.nodes[0].asked["eth_getTransactionReceipt"] == 1


def test_a_worker_that_starts_again_still_notices_what_a_fork_took_away(file):
    with stage() as on:
        one = worker(settings(on, depth=DEPTH), file, ("chain",))
        first = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))), (on.is_through, lambda: None)
        )
        run_until(one, first)
        on.chain.fork(1, {deed(1).transaction})  # while nobody looks
        again = worker(settings(on, depth=DEPTH), file, ("chain",))
        mine = on.chain.mine
        script = Script(
            (lambda: listening(on, again), mine),
            *[(heard(on, again), mine)] * (3 * DEPTH),
            (lambda: len(retractions(file)) == 1, lambda: None),
        )
        run_until(again, script)

    [parked] = retractions(file)
    assert deed(1).transaction in (parked.body or "")


def test_a_node_without_the_receipt_of_a_block_that_stands_retracts_nothing(file):
    with stage() as on:
        one = worker(settings(on, depth=DEPTH), file, ("chain",))
        node, mine = on.nodes[0], on.chain.mine

        def forget() -> None:
            node.asked.clear()
            node.nulls = 10_000

        def remember() -> None:
            node.nulls = 0

        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))),
            (on.is_through, forget),
            *[(heard(on, one), mine)] * (3 * DEPTH),
            # Twice would have been enough: once to doubt that it is there, and once to take it for gone.
            (lambda: heard(on, one)() and node.asked["eth_getTransactionReceipt"] > 1, remember),
            (lambda: True, lambda: on.leaders.act(deed(2))),
            (on.is_through, lambda: None),
        )
        run_until(one, script)

    assert retractions(file) == []
    assert one.tallies["copytrade"].total("retracted") == 0


@pytest.mark.parametrize("span", [500, 3], ids=["whole", "stretches"])
def test_what_a_fork_moved_is_not_retracted_by_a_node_that_shows_its_logs_and_no_receipt(file, span):
    with stage() as on:
        # Neither the stream nor a sweep shows where it stands now: only the look before a retraction does.
        one = worker(settings(on, depth=DEPTH, sweep="1h", span=span), file, ("chain",))
        node, mine = on.nodes[0], on.chain.mine
        moved = deed(1).transaction

        def move() -> None:
            node.loses.add(moved)
            node.forgets.add(moved)
            on.chain.fork(2)
            node.asked.clear()

        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))),
            (on.is_through, mine),
            (heard(on, one), move),
            *[(heard(on, one), mine)] * (2 * DEPTH),
            (lambda: heard(on, one)() and node.asked["eth_getLogs"] > 1, mine),
            (heard(on, one), node.forgets.clear),
            (lambda: True, lambda: on.leaders.act(deed(2))),
            (on.is_through, lambda: None),
        )
        run_until(one, script)

    assert retractions(file) == []
    assert one.tallies["copytrade"].total("retracted") == 0


class Away(Inline):
    """A store that cannot be reached when a certain key is written for the first time."""

    def __init__(self, store: MemoryStore, strikes: Callable[[Key], bool]) -> None:
        super().__init__(store)
        self.struck = 0
        self._strikes = strikes

    async def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        if not self.struck and any(self._strikes(one.key) for one in changes):
            self.struck += 1
            raise Unreachable("the store is away")
        return await super().swap(changes)


def test_a_trade_that_came_while_the_store_was_unreachable_is_read_again():
    away = Away(MemoryStore(), lambda key: key == named("copytrade", "watched"))
    with stage() as on:
        one = worker(settings(on, depth=DEPTH), away, ("chain",))
        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))), (on.is_through, lambda: None)
        )
        run_until(one, script)

    assert away.struck == 1
    assert on.copied() == on.wanted()


def test_a_retraction_that_could_not_be_parked_is_not_forgotten():
    memory = MemoryStore()
    away = Away(memory, lambda key: "undo" in key.parts)
    with stage() as on:
        one = worker(settings(on, depth=DEPTH), away, ("chain",))
        mine = on.chain.mine

        def parked() -> list[Any]:
            return list(memory.scan("copytrade", ("parked",), False, None, 10)[0])

        def watched() -> str | None:
            [seen] = memory.get([named("copytrade", "watched")])
            return seen.entry.body if seen.entry else None

        script = Script(
            (lambda: listening(on, one), lambda: on.leaders.act(deed(1))),
            (on.is_through, lambda: on.chain.fork(1, {deed(1).transaction})),
            (heard(on, one), lambda: [mine() for _ in range(2 * DEPTH)]),
            (lambda: away.struck > 0 and watched() == "{}", lambda: None),
        )
        run_until(one, script)

    assert len(parked()) == 1


# ----- the decision, by steps


def known(depth: int = 3) -> Forks:
    forks = Forks(depth)
    forks.head(10, "h10", "h9")
    forks.include("t", 10, "h10", ({"leader": "l"},))
    return forks


def test_a_trade_that_is_deep_enough_and_there_is_watched_no_longer():
    forks = known()
    for number in (11, 12):
        forks.head(number, f"h{number}", f"h{number - 1}")
        assert forks.due() == []
    forks.head(13, "h13", "h12")

    assert forks.due() == ["t"]
    assert forks.judge("t", {"blockNumber": "0xa", "blockHash": "h10"}) is None
    assert forks.watched == {}


def test_a_head_with_another_parent_says_that_its_block_is_gone():
    forks = known()
    forks.head(11, "x11", "x10")

    assert forks.watched["t"].gone == 11


def test_a_head_of_a_shorter_chain_says_so_too():
    forks = known()
    forks.head(9, "x9", "h8")

    assert forks.watched["t"].gone == 9


def test_a_receipt_that_is_missing_without_a_fork_is_waited_for_once_more():
    forks = known()
    forks.head(13, "h13", "h12")

    assert forks.judge("t", None) is None
    assert forks.due() == []
    forks.head(16, "h16", "h15")
    assert forks.due() == ["t"]
    assert forks.judge("t", None) == Inclusion(10, "h10", ({"leader": "l"},), 13)


def test_what_was_included_again_is_watched_in_its_new_place():
    forks = known()
    forks.remove("t", "h10")
    forks.remove("t", "other")
    forks.head(13, "h13", "h12")

    assert forks.due() == ["t"]
    assert forks.judge("t", {"blockNumber": "0xc", "blockHash": "h12"}) is None
    assert forks.watched["t"] == Inclusion(12, "h12", ({"leader": "l"},))


def test_what_is_watched_survives_as_a_text():
    forks, again = known(), Forks(3)
    forks.remove("t", "h10")
    again.take(forks.text())

    assert again.watched == forks.watched
