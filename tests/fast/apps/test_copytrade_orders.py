"""Copytrade and its orders: one per trade whatever becomes of the answer, within limits that hold."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from onefold.apps.copytrade.orders import Placed, Remote
from onefold.apps.copytrade.sizing import Rule
from onefold.core.terms import Terms
from onefold.runtime.http import NoAnswer
from onefold.worlds.leaders import LEADERS
from onefold.worlds.matches import MILLION
from onefold.worlds.mischief import Mischief
from onefold.worlds.orders import OrderBook
from tests.fast.apps.copying import ALL, QUICK, deed, entry, fill, is_done, kept, run, settings, stage, worker
from tests.fast.apps.lives import run_until_killed
from tests.fast.cli.stage import Cli
from tests.fast.worker.stage import run_until, until
from tests.waiting import PATIENCE


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def test_an_order_whose_answer_is_lost_is_found_again_and_not_made_anew(file):
    with stage(orders=Mischief(1, {"cut-after": 0.6})) as on:
        on.leaders.act(*[deed(number) for number in range(1, 6)])
        run(on, file)
        one = worker(settings(on), file)
        names = list(on.wanted())
        run_until(one, lambda: is_done(file, names))

    assert on.copied() == on.wanted()
    assert on.orders.mischief.drawn["cut-after"] > 0


def test_an_order_in_doubt_for_longer_than_its_id_is_remembered_is_found_by_its_probe(file):
    # Past the window nothing is sent again: only looking can tell.
    with stage(orders=Mischief(1, {"cut-after": 1.0})) as on:
        on.leaders.act(deed(1))
        [name] = on.wanted()
        one = worker(settings(on, orders_window="100ms"), file)

        def through() -> bool:
            doubt = entry(file, name)
            if doubt is not None and doubt.state == "parked":
                on.orders.mischief.stop()
            return doubt is not None and doubt.state == "done"

        run_until(one, through)

    assert on.copied() == on.wanted()
    assert len(on.orders.journal.of("repeat")) <= 1


def test_an_order_that_times_out_is_looked_for_and_never_made_twice():
    order = {"client_id": "a" * 32, "reference": "l/t/a/BUY", "size": "1.00", "price": "0.50"}
    # The book takes the order and answers too late, and too late again when it is looked for.
    with OrderBook(Mischief(1, {"stall": 1.0}, 5.0)) as book:

        async def twice() -> Placed:
            hasty, patient = Remote(book.url, None, timeout=0.5), Remote(book.url, None, timeout=PATIENCE)
            try:
                with pytest.raises(NoAnswer):
                    await hasty.place(order)
                await until(lambda: len(book.requests) == 2)
                book.mischief.stop()
                return await patient.place(order)
            finally:
                await hasty.aclose()
                await patient.aclose()

        placed = anyio.run(twice)

    assert (placed.size, placed.price) == (Decimal("1.00"), Decimal("0.50"))
    assert [request.method for request in book.requests] == ["POST", "GET", "POST"]
    assert len(book.journal.of("order")) == 1


def test_a_service_that_keeps_failing_is_asked_no_more_and_a_person_may_retry(file):
    with stage(orders=Mischief(1, {"error": 1.0})) as on:
        on.leaders.act(deed(1))
        [name] = on.wanted()
        one = worker(settings(on), file)
        run_until(one, lambda: "failed" in kept_if_any(file, name))
        asked = len([request for request in on.orders.requests if request.method == "POST"])
        on.orders.mischief.stop()
        assert Cli()("retry", "copytrade", *name.split("/"), "--store", file, "-y").exit_code == 0
        run_until(worker(settings(on), file), on.is_through)

    assert asked == QUICK.attempts
    assert on.copied() == on.wanted()


def kept_if_any(url: str, name: str) -> str:
    found = entry(url, name)
    return str(found.why) if found else ""


def test_two_workers_that_hear_of_the_same_trades_copy_each_once(store):
    # The seed's mutex lives in one process, and is let go before the commit.
    with stage(orders=Mischief(2, {"stall": 0.3, "cut-after": 0.1}, 0.05)) as on:
        on.leaders.act(*on.leaders.draw(8, 12))
        # Two workers may sell at a loss before they sell at a gain, so no loss may end the purchases.
        said = settings(on, rules={"*": msgspec.structs.replace(ALL, max_loss=1e9)})
        anyio.run(side_by_side, [worker(said, store), worker(said, store)], on.is_through)

    assert on.copied() == on.wanted()


def test_a_refused_order_is_parked_and_its_count_taken_back(file):
    with stage() as on:
        on.orders.refuses = "not enough balance"
        on.leaders.act(deed(1))
        [name] = on.wanted()
        one = worker(settings(on, rules={"*": Rule(ratio=0.5, max_orders=1)}), file)
        run_until(one, lambda: one.tallies["copytrade"].total("failed") > 0)
        on.orders.refuses = None
        on.leaders.act(deed(2))
        run_until(
            worker(settings(on, rules={"*": Rule(ratio=0.5, max_orders=1)}), file),
            lambda: on.copied().total() == 1,
        )

    assert kept(file, name).startswith("failed ")
    assert "not enough balance" in kept(file, name)


def test_two_workers_together_never_exceed_the_orders_of_a_day(store):
    with stage() as on:
        on.leaders.act(*[deed(number) for number in range(1, 13)])
        said = settings(on, rules={"*": Rule(ratio=0.5, max_orders=5)})
        workers = [worker(said, store), worker(said, store)]

        def through() -> bool:
            return sum(one.tallies["copytrade"].total("done") for one in workers) >= 12

        anyio.run(side_by_side, workers, through)

    assert on.copied().total() == 5


async def side_by_side(workers, condition) -> None:
    async with anyio.create_task_group() as group:
        for one in workers:
            group.start_soon(one.arun)
        await until(condition)
        for one in workers:
            one.stop()


@pytest.mark.parametrize("deaths", [1, 4])
def test_a_worker_that_dies_while_it_orders_copies_every_trade_once(file, deaths):
    mortal = Terms(lease=2, backoff=(0.1, 1), attempts=50)
    with stage(orders=Mischief(1, {"stall": 0.9, "cut-after": 0.1}, 0.4)) as on:
        on.leaders.act(*on.leaders.draw(7, 10 * deaths, ("trade", "trade", "mint", "redeem")))
        for _ in range(deaths):
            on.orders.requests.clear()
            run_until_killed(worker(settings(on), file, terms=mortal), lambda: bool(on.orders.requests))
        on.orders.mischief.stop()
        run_until(worker(settings(on), file, terms=mortal), on.is_through)

    assert on.copied() == on.wanted()


def test_only_what_was_bought_as_a_copy_is_sold(file):
    with stage() as on:
        rule = Rule(ratio=0.5, max_order=1e6)
        on.leaders.act(deed(1, fill(side="SELL", market=1)), deed(2, fill(size=60 * MILLION)))
        one = worker(settings(on, rules={"*": rule}), file)

        def bought() -> bool:
            return one.tallies["copytrade"].total("done") >= 2

        run_until(one, bought)
        on.leaders.act(deed(3, fill(side="SELL")))
        run_until(worker(settings(on, rules={"*": rule}), file), lambda: on.copied().total() >= 2)

    orders = [(line["side"], line["size"]) for line in on.orders.journal.of("order")]
    assert orders == [("BUY", "30.00"), ("SELL", "30.00")]


def test_a_rest_is_sold_with_the_leaders_however_little_it_is(file):
    rule = Rule(ratio=1.0, min_order=10.0, max_order=1e6)
    deeds = [
        deed(1, fill(size=60 * MILLION, usdc=30 * MILLION)),
        deed(2, fill(side="SELL", size=50 * MILLION, usdc=25 * MILLION)),
        deed(3, fill(side="SELL", size=40 * MILLION, usdc=20 * MILLION)),  # of which 10 are left
        deed(4, fill(size=30 * MILLION, usdc=15 * MILLION)),
        deed(5, fill(side="SELL", size=90 * MILLION, usdc=45 * MILLION)),
    ]
    with stage() as on:
        for number, one in enumerate(deeds, 1):
            on.leaders.act(one)
            at_work = worker(settings(on, rules={"*": rule}), file, ("chain",))
            names = list(on.wanted())
            run_until(at_work, partial(is_done, file, names))
            assert len(names) == number

    orders = [(line["side"], line["size"]) for line in on.orders.journal.of("order")]
    assert orders == [
        ("BUY", "60.00"),
        ("SELL", "50.00"),
        ("SELL", "10.00"),
        ("BUY", "30.00"),
        ("SELL", "30.00"),
    ]


def test_what_a_rule_forbids_is_not_copied_and_the_reason_is_kept(file):
    with stage() as on:
        on.leaders.act(deed(1))
        [name] = on.wanted()
        said = settings(
            on, max_age="10m", rules={"*": ALL, LEADERS[0].upper().replace("0X", "0x"): Rule(sides=("SELL",))}
        )
        one = worker(said, file)
        run_until(one, lambda: one.tallies["copytrade"].total("done") > 0)

    assert on.copied().total() == 0
    assert "BUY is not copied" in kept(file, name)


def test_copies_on_paper_need_no_service_at_all(file, tmp_path):
    with stage() as on:
        on.leaders.act(deed(1))
        [name] = on.wanted()
        one = worker(settings(on, orders_url="", paper=str(tmp_path / "paper.db")), file)
        run_until(one, lambda: one.tallies["copytrade"].total("done") > 0)

    assert '"order":"paper-' in kept(file, name)
    assert on.copied().total() == 0
