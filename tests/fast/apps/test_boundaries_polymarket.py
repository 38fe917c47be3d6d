"""Mutated pages for each parser of Polymarket's rows: nothing raises, no sound row is lost.

Small rows of our own always run; recorded ones where the folder is. A failure names its seed: call the check
of that parser with `page(ROWS, seed, owners=OWNERS, size=SIZE)` to see it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from onefold.apps._polymarket import By, answered, fill, former_parts
from onefold.apps.copytrade import Settings as CopytradeSettings
from onefold.apps.copytrade import book
from onefold.apps.copytrade import pipelines as copytrade
from onefold.apps.copytrade.following import Following
from onefold.apps.copytrade.sizing import Order, Rule, plan
from onefold.apps.copytrade.trades import closed, trade
from onefold.apps.whales import Settings as WhalesSettings
from onefold.apps.whales import pipelines as whales
from onefold.apps.whales.filters import Subscriber, fits, wants
from onefold.apps.whales.words import told
from onefold.core.record import Record
from onefold.core.rows import records, rows_of
from onefold.core.wire import parse
from onefold.sources.poll import Poll
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worker.work import Task, written
from tests.checkout import FIXTURES
from tests.mutations import Page, page, pages

recorded = pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")

ME = "0x00000000000000000000000000000000000a11ce"
STRANGER = "0x" + "57" * 20
SETTLED = 1e18
TICK = Decimal("0.01")
RULES = (Rule(), Rule(mode="fixed", only_held=False, tolerance=0.0, ratio=5.0))
CURIOUS = Subscriber(chat="c", min_notional=10.0, max_price=0.9, markets=("0xc1", "slug"))

SIZE = 2
"""Rows of a page: one that is mutated, and one that must arrive all the same."""

Check = Callable[[Page], None]


def row(number: int, **change: Any) -> dict[str, Any]:
    """Make a row of `/trades` or `/activity`."""
    return {
        "proxyWallet": ME,
        "side": "BUY" if number % 2 else "SELL",
        "asset": str(10**70 + number),
        "conditionId": f"0xc{number}",
        "size": 10.5 * (number + 1),
        "price": 0.25,
        "timestamp": 1_700_000_000 + number,
        "title": "Will it <rain>?",
        "slug": "rain",
        "outcome": "Yes",
        "outcomeIndex": number % 2,
        "name": "bob",
        "transactionHash": f"0x{number:064x}",
        **change,
    }


TRADES = [row(number) for number in range(5)]
ACTIVITY = [
    *(row(number, type="TRADE", usdcSize=2.75) for number in range(5)),
    # Two orders of one transaction, of one size, at two prices.
    row(1, type="TRADE", usdcSize=2.75, price=0.5),
    row(7, type="REDEEM", side="", asset="", price=0, outcomeIndex=999, usdcSize=3),
]
OWNERS = {"proxyWallet": STRANGER}
MARKETS = [
    {
        "conditionId": f"0xc{number}",
        "slug": f"market-{number}",
        "question": "Will it rain?",
        "outcomes": '["Yes", "No"]',
        "clobTokenIds": f'["{10**70 + 2 * number}", "{10**70 + 2 * number + 1}"]',
        "tags": [{"slug": "weather", "label": "Weather"}],
        "closed": number % 2 == 1,
        "orderPriceMinTickSize": 0.01,
        "negRisk": False,
    }
    for number in range(4)
]
FIELDS = (*MARKETS[0], "category", "id", "endDate", "volumeNum", "active")
OTHERS = {"conditionId": "0xffff", "clobTokenIds": '["7", "8"]'}


@contextmanager
def replayable(one: Page) -> Iterator[None]:
    """Name the seed of whatever fails."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"seed {one.seed}, row {one.spoiled}: {one.how}") from error


def run(check: Check, rows: Sequence[dict[str, Any]], owners: Mapping[str, Any], count: int) -> None:
    number = 0
    for one in pages(rows, owners=owners, size=SIZE, count=count):
        with replayable(one):
            check(one)
        number += 1
    assert number == count


def fixture(*names: str) -> list[Any]:
    found = [json.loads((FIXTURES / name).read_text("utf-8")) for name in names]
    return [row for rows in found for row in (rows if isinstance(rows, list) else [rows])]


# ----- rows of the Data API


def read(source: Poll, one: Page) -> tuple[list[Record], list[Record]]:
    """Read a page as the poll source does, without a socket; every row is a record or is set apart.

    Return the records, and those of them that come from the mutated row.
    """
    rows = rows_of(parse(one.text), source._shape.rows)
    sound = [json.loads(text) for place, text in enumerate(one.rows) if place != one.spoiled]
    now = max(row["timestamp"] for row in sound) + 10.0
    good, broken = records(rows, source._shape, now)
    assert len(good) + len(broken) == len(one.rows)
    bodies = [{name: value for name, value in record.body.items() if name not in OURS} for record in good]
    assert all(row in bodies for row in sound), "a row that nobody touched is lost"
    return good, [record for record, body in zip(good, bodies, strict=True) if body not in sound]


OURS = ("repeat", "alike")


def kept(pipeline: Pipeline, record: Record) -> str:
    """Write a record as its entry keeps it."""
    key = pipeline.key_of(record)
    assert key is not None
    return written(Task(key, record))


def activity_check(leader: str) -> Check:
    pipeline = copytrade(CopytradeSettings(leaders=(leader,)), Live())
    following = pipeline.sources["activity"]
    assert isinstance(following, Following)
    source = following._make(leader, 0.0)

    def check(one: Page) -> None:
        good, mutated = read(source._poll, one)
        assert all(record.body["proxyWallet"].lower() == leader for record in good)
        assert closed(good, SETTLED)[1] == [], "what cannot be read is set apart before"
        for record in closed(mutated, SETTLED)[0]:
            assert kept(pipeline, record)
            found = trade(record.body)
            assert found.leader == leader
            assert 0 < found.price <= 1
            assert book.saw(None, "o", found.timestamp, found.size)
            for rule in RULES:
                planned = plan(found, rule, TICK, 0.0, 1.0)
                assert not isinstance(planned, Order) or (0 < planned.price < 1 and planned.size > 0)

    return check


def trades_check() -> Check:
    pipeline = whales(WhalesSettings(chat_token=Secret("123456:token")), Live())
    source = pipeline.sources["trades"]
    assert isinstance(source, Poll)

    def check(one: Page) -> None:
        good, mutated = read(source, one)
        assert len({record.id for record in good}) == len(good), "two fills share a name"
        for record in mutated:
            assert kept(pipeline, record)
            assert all(len(parts) == 7 for parts in former_parts(record.body))
            found = fill(record.body)
            assert 0 < found.price <= 1
            assert wants(CURIOUS, found) in (True, False)
            assert told(found)

    return check


def test_mutated_rows_of_activity_are_set_apart_alone_and_strangers_are_never_copied(count):
    run(activity_check(ME), ACTIVITY, OWNERS, count)


def test_mutated_rows_of_trades_are_set_apart_alone(count):
    run(trades_check(), TRADES, OWNERS, count)


@recorded
def test_mutated_recordings_of_activity_are_set_apart_alone(count):
    names = "activity_mixed_types_50", "activity_trades_10"
    rows = fixture(*(f"polymarket_data_api/{name}.json" for name in names))
    [leader] = {row["proxyWallet"].lower() for row in rows[:50]}
    run(activity_check(leader), [row for row in rows if row["proxyWallet"].lower() == leader], OWNERS, count)


@recorded
def test_mutated_recordings_of_trades_are_set_apart_alone(count):
    run(trades_check(), fixture("polymarket_data_api/trades_global_3.json"), OWNERS, count)


# ----- markets of Gamma


def names_of(shown: Mapping[str, Any], by: By) -> list[str]:
    return [shown["conditionId"].lower()] if by == "condition_ids" else json.loads(shown["clobTokenIds"])


def markets_check(by: By, rows: Sequence[dict[str, Any]]) -> Check:
    asked = frozenset(name for row in rows for name in names_of(row, by))

    def check(one: Page) -> None:
        found, broken = answered(rows_of(parse(one.text), None), by, asked)
        sound = [json.loads(text) for place, text in enumerate(one.rows) if place != one.spoiled]
        assert all(name in found for row in sound for name in names_of(row, by))
        assert found.keys() <= asked
        assert len({id(market) for market in found.values()}) + len(broken) <= len(one.rows)
        for name, market in found.items():
            assert name in (market.condition, *market.assets)
            assert market.tick is None or 0 < market.tick < 1
            assert isinstance(market.closed, bool)
            assert fits(CURIOUS, market) in (True, False)

    return check


@pytest.mark.parametrize("by", ["condition_ids", "clob_token_ids"])
def test_mutated_markets_are_set_apart_alone_and_none_that_was_not_asked_for_is_taken(by, count):
    run(markets_check(by, MARKETS), MARKETS, OTHERS, count)


@recorded
def test_mutated_recordings_of_markets_are_set_apart_alone(count):
    names = "market_closed_binary", "market_detail_btc_updown", "market_open_binary"
    rows = fixture(*(f"polymarket_gamma/{name}.json" for name in names))
    # Of a hundred fields, those that are read and some beside them: mutations of the others tell nothing.
    rows = [{name: row[name] for name in FIELDS if name in row} for row in rows]
    run(markets_check("clob_token_ids", rows), rows, OTHERS, count)


# ----- the harness itself


def test_a_failure_names_its_seed_and_the_same_seed_gives_the_same_page():
    def check(one: Page) -> None:
        assert one.seed != 17

    with pytest.raises(AssertionError, match=r"seed 17, row \d: "):
        run(check, TRADES, OWNERS, 20)
    assert page(TRADES, 17, owners=OWNERS) == page(TRADES, 17, owners=OWNERS)
    assert page(TRADES, 17, owners=OWNERS) != page(TRADES, 18, owners=OWNERS)
