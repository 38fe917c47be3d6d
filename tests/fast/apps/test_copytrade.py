"""Copytrade: every trade of a leader is copied once, whichever source shows it; the order book counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from onefold.worlds.leaders import Deed, Kind
from onefold.worlds.matches import MILLION
from onefold.worlds.mischief import Mischief
from tests.fast.apps.copying import ALL, Script, deed, fill, kept, run, settings, stage, worker
from tests.fast.worker.stage import run_until

KINDS: tuple[Kind, ...] = (
    *("trade", "trade", "trade", "mint"),
    *("redeem", "split", "merge", "convert", "foreign"),
)
TROUBLE = {"busy": 0.05, "error": 0.05, "stall": 0.05, "cut-before": 0.03, "half": 0.03}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def trouble(seed: int, **more: float) -> Mischief:
    return Mischief(seed, {**TROUBLE, **more}, 0.05)  # type: ignore[dict-item]


# ----- acceptance


def test_every_trade_is_copied_once_though_everything_misbehaves_and_the_worker_restarts(store):
    lines = Mischief(5, {"drop": 0.05, "repeat": 0.05, "swap": 0.05, "cut-before": 0.02}, 0.05)
    nodes: list[dict[str, Any]] = [
        {"mischief": trouble(6), "stream_mischief": lines, "nulls": 1},
        {"behind": 1},
    ]
    with stage(data=trouble(3), orders=trouble(4, **{"cut-after": 0.1}), nodes=nodes) as on:
        first, rest = on.leaders.draw(1, 12, KINDS), on.leaders.draw(2, 14, KINDS)
        for one in first:
            on.leaders.act(one)
        run(on, store)
        for one in rest[:4]:
            on.leaders.act(one)  # while nobody looks
        said = worker(settings(on), store)
        left = iter(rest[4:])

        def through() -> bool:
            for one in left:
                on.leaders.act(one)
                return False
            return on.is_through()

        run_until(said, through)

    assert on.copied() == on.wanted()


@pytest.mark.parametrize("only", [("chain",), ("activity",), ()], ids=["chain", "list", "both"])
def test_two_assets_and_both_sides_of_one_transaction_are_copied_from_either_source(file, only):
    both = fill(), fill(market=1, era="V1"), fill(side="SELL"), fill(1, market=1, size=60 * MILLION)
    with stage() as on:
        on.leaders.act(deed(1, *both[:3]), deed(2, both[3]))
        run(on, file, only)

    assert on.copied() == on.wanted()
    assert on.copied().total() == 4


@pytest.mark.parametrize("chain_first", [True, False], ids=["chain-first", "list-first"])
def test_in_whatever_order_the_sources_show_two_fills_of_one_transaction_each_is_copied_once(
    file, chain_first
):
    both, last = deed(1, fill(), fill(market=1)), deed(2, fill(1))
    with stage() as on:

        def show(*deeds: Deed, chain: bool) -> None:
            on.leaders.act(*deeds, mined=chain, listed=not chain)

        one = worker(settings(on), file)
        script = Script(
            (lambda: one.ready, lambda: show(both, chain=chain_first)),
            (lambda: on.copied().total() == 2, lambda: show(both, last, chain=not chain_first)),
            (lambda: on.copied().total() >= 3, lambda: None),
        )
        run_until(one, script)

    assert on.copied() == on.wanted()
    assert on.copied().total() == 3


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_two_orders_of_one_asset_are_one_row_of_the_list_and_copied_once_with_their_sum(file, only):
    with stage() as on:
        on.leaders.act(deed(1, fill(), fill(size=60 * MILLION, usdc=30 * MILLION)))
        run(on, file, only)
        again = worker(settings(on), file)
        run_until(again, lambda: again.ready)

    [line] = on.orders.journal.of("order")
    assert line["size"] == "80.00"  # half of 100 and 60
    assert line["price"] == "0.52"


@pytest.mark.parametrize("kind", ["redeem", "split", "merge", "convert", "foreign"])
def test_what_is_no_trade_of_a_known_exchange_is_never_copied(file, kind):
    with stage() as on:
        on.leaders.act(*[one._replace(kind=kind) for one in on.leaders.draw(3, 4)])
        on.leaders.act(deed(9))
        run(on, file)

    assert on.copied() == on.wanted()
    assert on.copied().total() == 1


def test_both_parties_of_a_mint_buy_and_each_leader_is_copied_as_what_they_did(file):
    with stage() as on:
        on.leaders.act(deed(1, fill(usdc=48 * MILLION))._replace(kind="mint"))
        run(on, file, ("chain",))

    [line] = on.orders.journal.of("order")
    assert (line["side"], line["price"]) == ("BUY", "0.50")


def test_an_edge_cached_list_does_not_hide_what_is_new(file):
    with stage() as on:
        on.leaders.activity.cached_for = 1000
        on.leaders.act(deed(1))
        one = worker(settings(on), file, ("activity",))

        def grown() -> bool:
            if on.copied().total() == 1 and on.leaders.activity.asked < 10_000:
                on.leaders.act(deed(2))
                on.leaders.activity.asked += 10_000
            return on.copied().total() == 2

        run_until(one, grown)

    assert on.copied() == on.wanted()


# ----- sources


def test_without_gamma_the_list_wins_though_the_chain_was_faster(file):
    with stage() as on:
        for row in on.data.markets:
            on.data.unknown_for[row["conditionId"]] = 10_000
        on.leaders.act(deed(1), listed=False)
        one = worker(settings(on), file)
        coming = [deed(1)]

        def through() -> bool:
            if coming and one.tallies["copytrade"].total("refused") > 2:
                on.leaders.act(coming.pop(), mined=False)
            return on.is_through()

        run_until(one, through)

    assert coming == []
    assert on.copied() == on.wanted()


def test_one_set_of_subscriptions_serves_all_leaders_and_one_receipt_all_logs(file):
    with stage() as on:
        one = worker(settings(on), file, ("chain",))

        def through() -> bool:
            if on.nodes[0].stream.connections and len(on.chain.journal.of("subscribed")) >= 6 and one.ready:
                if not on.wanted():
                    on.leaders.act(deed(1, fill(0), fill(0, market=1)), deed(2, fill(1)), deed(3, fill(2)))
                return on.is_through()
            return False

        run_until(one, through)

    assert on.copied() == on.wanted()
    assert len(on.chain.journal.of("subscribed")) == 6
    assert on.nodes[0].asked["eth_getTransactionReceipt"] == 3


def test_a_receipt_that_is_null_at_first_is_waited_for(file):
    with stage(nodes=[{"nulls": 3}]) as on:
        on.leaders.act(deed(1))
        run(on, file, ("chain",))

    assert on.copied() == on.wanted()


@pytest.mark.parametrize(
    ("how", "receipt"),
    [("nulls", "1s"), ("behind", "1s"), ("behind", "50ms")],
    ids=["nulls", "behind", "late"],
)
def test_a_node_that_is_behind_the_head_is_left_for_another(file, how, receipt):
    with stage(nodes=[{}, {}]) as on:
        for _ in range(5):
            on.chain.mine()
        one = worker(settings(on, receipt=receipt), file, ("chain",))

        def fall_behind() -> None:
            # Not so far behind that the pool would not pick it.
            setattr(on.nodes[0], how, {"nulls": 10_000, "behind": 2}[how])
            on.leaders.act(deed(1))

        script = Script((lambda: one.ready, fall_behind), (on.is_through, lambda: None))
        run_until(one, script)

    assert on.copied() == on.wanted()


def test_a_node_of_another_chain_is_not_believed(file):
    with stage(nodes=[{"chain_id": 1}, {}]) as on:
        on.leaders.act(deed(1))
        run(on, file, ("chain",))
        one = worker(settings(on), file, ("chain",))
        run_until(one, lambda: one.ready)

    assert on.copied() == on.wanted()


def test_a_stretch_that_is_too_long_for_a_node_is_asked_for_in_parts(file):
    with stage(nodes=[{"span": 3}]) as on:
        for number in range(10):
            on.leaders.act(deed(number + 1))
        run(on, file, ("chain",))

    assert on.copied() == on.wanted()


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_a_trade_of_the_newest_exchange_is_copied_and_its_market_found_by_its_position(file, only):
    with stage() as on:
        position, _ = on.data.renew(0)
        on.data.markets[0]["orderPriceMinTickSize"] = 0.001
        on.leaders.act(deed(1, fill(asset=position, era="V3", usdc=50_500_000)))
        run(on, file, only, rules={"*": msgspec.structs.replace(ALL, tolerance=0.0)})

    assert on.copied() == on.wanted()
    [order] = on.orders.journal.of("order")
    assert order["price"] == "0.505", "the tick of its market was found"


def test_a_node_that_refuses_the_newest_blocks_does_not_end_the_back_fill(file):
    # Behind one address stand many nodes: one says how far the chain has come, another is not there yet.
    with stage(nodes=[{"late_logs": 1, "loses": {deed(2).transaction}}]) as on:
        on.leaders.act(deed(1))
        on.chain.mine()
        one = worker(settings(on, sweep="100ms"), file, ("chain",))

        def trade() -> None:
            on.leaders.act(deed(2))
            on.chain.mine()

        run_until(
            one,
            Script(
                (lambda: one.ready and on.is_through(), trade),
                (on.is_through, lambda: None),
            ),
        )

    assert on.copied() == on.wanted()
    assert len(on.nodes[0].stream.journal.of("connected")) <= 2, "one line, and perhaps a probe"


def test_a_log_that_a_subscription_lost_is_found_by_the_next_sweep(file):
    with stage(nodes=[{"loses": {deed(1).transaction, deed(2).transaction}}]) as on:
        one = worker(settings(on, sweep="100ms"), file, ("chain",))
        run_until(
            one,
            Script(
                (lambda: one.ready, lambda: on.leaders.act(deed(1))),
                (on.is_through, lambda: on.leaders.act(deed(2))),
                (on.is_through, lambda: None),
            ),
        )

    assert on.copied() == on.wanted()


def test_the_cursor_does_not_pass_blocks_whose_history_was_not_read(file):
    # The stream lost the first trade and showed the second; the worker stops before a sweep.
    with stage(nodes=[{"loses": {deed(1).transaction}}]) as on:
        one = worker(settings(on, sweep="1h", depth=2), file, ("chain",))

        def trade() -> None:
            on.leaders.act(deed(1))
            for _ in range(10):
                on.chain.mine()
            on.leaders.act(deed(2))

        run_until(one, Script((lambda: one.ready, trade), (lambda: bool(on.copied()), lambda: None)))
        run(on, file, ("chain",), depth=2)

    assert on.copied() == on.wanted()


def test_a_line_that_is_cut_is_made_anew_and_what_was_missed_is_read(file):
    with stage() as on:
        one = worker(settings(on), file, ("chain",))
        cut: list[int] = []

        def through() -> bool:
            if one.ready and not cut and on.nodes[0].stream.connections:
                on.nodes[0].stream.spoil("cut-before")
                cut.append(1)
            if cut and not on.nodes[0].stream.connections and not on.wanted():
                on.leaders.act(deed(1))
            return bool(on.wanted()) and on.is_through()

        run_until(one, through)

    assert on.copied() == on.wanted()


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_a_trade_of_a_market_that_is_closed_by_now_is_looked_up_by_its_token_and_not_copied(file, only):
    with stage() as on:
        on.leaders.act(deed(1, fill(market=2)))
        [name] = on.wanted()
        one = worker(settings(on), file, only)
        run_until(one, lambda: one.tallies["copytrade"].total("done") > 0)

    assert on.copied().total() == 0
    assert "the market is closed" in kept(file, name)
