"""The pure parts of copytrade: logs and rows to trades, sizes, prices, counts. And what was recorded."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from onefold.apps.copytrade import Settings, book, pipelines
from onefold.apps.copytrade.logs import FILLED_V1, FILLED_V2, Contracts, filters, order, topic, trades
from onefold.apps.copytrade.sizing import Order, Rule, Skip, limit, plan
from onefold.apps.copytrade.trades import Trade, closed, key, listed, row_id, summed, trade
from onefold.core.errors import Misconfigured
from onefold.core.record import Record
from onefold.worker.settings import Live
from onefold.worlds import matches
from onefold.worlds.chain import Chain, Transaction, fits
from onefold.worlds.leaders import LEADERS, Leaders
from onefold.worlds.matches import MILLION, Fill, converted, match, merged, minted, moved, redeemed, split
from onefold.worlds.polymarket import Polymarket
from tests.checkout import FIXTURES

recorded = pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")

ME = LEADERS[0]
ASSET = str(10**70)
BUY = Fill(ME, ASSET, "BUY", 100 * MILLION, 50 * MILLION)


def read(logs: list[dict[str, Any]], *leaders: str, failed: bool = False) -> list[Trade]:
    """Mine logs, and read the trades of their receipt."""
    chain = Chain()
    block = chain.mine(Transaction("0x01", logs, failed))
    receipt = block.receipt("0x01")
    assert receipt is not None
    found, broken = trades(receipt, leaders or (ME,), Contracts(), block.timestamp)
    assert broken == []
    return found


def told(found: list[Trade]) -> list[tuple[str, str, str, str]]:
    return [(one.side, str(one.size), str(one.usdc), one.asset) for one in found]


# ----- logs


@pytest.mark.parametrize("era", ["V1", "V2", "V3"])
@pytest.mark.parametrize("side", ["BUY", "SELL"])
def test_an_order_of_either_era_and_side_is_read_before_fees(era, side):
    fill = BUY._replace(era=era, side=side, fee=3 * MILLION)

    assert told(read(match([fill]))) == [(side, "100", "50", ASSET)]


def test_topics_are_as_the_world_knows_them():
    assert {FILLED_V1, FILLED_V2} == set(matches.FILLED.values())
    assert topic("Transfer(address,address,uint256)") == matches.TRANSFER


def test_in_a_mint_both_buy_and_neither_is_turned_around():
    logs = minted(BUY._replace(usdc=48 * MILLION), "7")

    assert told(read(logs)) == [("BUY", "100", "48", ASSET)]
    assert told(read(logs, matches.SOMEBODY)) == [("BUY", "100", "52", "7")]


def test_in_a_merge_both_sell():
    logs = minted(BUY._replace(side="SELL", usdc=48 * MILLION), "7")

    assert told(read(logs)) == [("SELL", "100", "48", ASSET)]
    assert told(read(logs, matches.SOMEBODY)) == [("SELL", "100", "52", "7")]


@pytest.mark.parametrize(
    "logs",
    [
        redeemed(ME, ASSET, MILLION),
        split(ME, [ASSET, "7"], MILLION),
        merged(ME, [ASSET, "7"], MILLION),
        converted(ME, ASSET, ["7", "9"], MILLION),
        moved(BUY),
        matches.foreign(BUY, "0x" + "77" * 20),
        [{**log, "topics": log["topics"][:3]} for log in match([BUY])],
        match([BUY._replace(size=0)]),
    ],
    ids=["redeem", "split", "merge", "convert", "transfers", "foreign", "short", "nothing"],
)
def test_what_is_no_order_of_a_known_exchange_is_no_trade(logs):
    assert read(logs) == []


def test_an_exchange_or_token_that_nobody_named_is_neither_asked_for_nor_believed():
    logs = [{**log, "address": "0x" + "99" * 20} for log in match([BUY])]

    assert read(logs) == []
    assert not any(fits(log, wanted) for log in logs for wanted in filters([ME], Contracts()))
    assert all(any(fits(log, wanted) for wanted in filters([ME], Contracts())) for log in match([BUY])[:3])


def test_a_transaction_that_failed_holds_no_trade():
    assert read(match([BUY]), failed=True) == []


def test_shares_against_shares_have_no_price_and_are_no_trade():
    log = matches.filled(BUY._replace(era="V1"), 1)
    swapped = {**log, "data": "0x" + "".join(map(matches.word, (5, 6, 1, 1, 0)))}

    assert order({**swapped, "transactionHash": "0x1"}, [ME], 0) is None


@pytest.mark.parametrize(
    "data", ["0x", "0x" + "00" * 31, "0x" + "".join(map(matches.word, (2, 1, 1, 1, 1, 0, 0)))]
)
def test_an_order_that_cannot_be_read_says_so(data):
    log = {**matches.filled(BUY, 1), "data": data, "transactionHash": "0x1"}

    with pytest.raises(ValueError, match="0x1"):
        order(log, [ME], 0)


def test_the_taker_s_event_of_another_s_order_is_not_counted_too():
    other = matches.filled(BUY._replace(wallet=matches.SOMEBODY, side="SELL"), 9, taker=ME)

    assert told(read([*match([BUY]), other])) == [("BUY", "100", "50", ASSET)]


def test_one_filter_names_all_leaders():
    asked = filters(LEADERS, Contracts())

    assert len(asked) == 5
    assert all(len(one["topics"][-1]) == len(LEADERS) for one in asked)


# ----- both sources, one name


def test_the_chain_and_the_list_name_every_trade_alike_and_sum_to_one_size():
    chain, data = Chain(), Polymarket()
    leaders = Leaders(chain, data)
    deeds = leaders.draw(11, 60, ("trade", "mint"))
    for deed in deeds:
        leaders.act(deed)
    receipts = [(block, one.hash) for block in chain.blocks for one in block.transactions]
    mined = [
        one
        for block, name in receipts
        for one in trades(block.receipt(name) or {}, LEADERS, Contracts(), block.timestamp)[0]
    ]
    rows = [Record(row_id(row), row, row["timestamp"]) for row in leaders.activity._rows]
    shown = [trade(one.body) for one in closed(rows, 1e18)[0]]

    assert {one.parts for one in mined} == {one.parts for one in shown}
    sizes = {one.parts: one.size for one in mined}
    assert all(abs(sizes[one.parts] - one.size) < Decimal("1e-6") for one in shown)


ROW = {
    "proxyWallet": ME.upper().replace("0X", "0x"),
    "type": "TRADE",
    "side": "BUY",
    "asset": ASSET,
    "conditionId": "0xC0",
    "size": 10.5,
    "price": 0.860000001148,
    "usdcSize": 9.5,
    "timestamp": 1_700_000_000,
    "transactionHash": "0xAB",
}


def shown(*rows: dict[str, Any], settled: float = 0.0) -> list[tuple[str, str]]:
    records = [Record(row_id(row), row, row["timestamp"]) for row in rows]
    return [(one.body["transaction"], one.body["size"]) for one in closed(records, settled)[0]]


def test_a_group_is_closed_by_a_later_row_or_by_time_and_not_before():
    later = {**ROW, "transactionHash": "0xCD", "timestamp": 1_700_000_001}

    assert shown(ROW, {**ROW, "size": 1}) == []
    assert shown(ROW, {**ROW, "size": 1}, later) == [("0xab", "11.5")]
    assert shown(ROW, {**ROW, "size": 1}, settled=1_700_000_000) == [("0xab", "11.5")]


@pytest.mark.parametrize("kind", ["REDEEM", "SPLIT", "MERGE", "CONVERSION", "REWARD", "MAKER_REBATE", "NEW"])
def test_rows_of_other_types_are_never_copied(kind):
    assert shown({**ROW, "type": kind}, settled=2e9) == []


def test_a_row_that_is_no_trade_is_set_aside_with_the_reason():
    records, broken = closed([Record("r", {**ROW, "side": ""}, 5)], 10)

    assert records == []
    assert "neither BUY nor SELL" in broken[0].reason


def test_a_fee_does_not_change_the_price_of_a_row():
    assert listed(ROW).price == Decimal("0.860000001148")


def test_a_mark_of_how_far_was_read_has_no_key():
    assert key(Record("block-5", {"block": 5}, 5)) is None
    assert key(Record("r", listed(ROW).body(), 5)) == (ME, "0xab", ASSET, "BUY")


# ----- sizing

TRADE = Trade(ME, "0x1", ASSET, "BUY", Decimal(1000), Decimal(500), 0)
CENT = Decimal("0.01")


@pytest.mark.parametrize(
    ("rule", "change", "wanted"),
    [
        ({}, {}, Order("BUY", Decimal("100.00"), Decimal("0.52"))),
        ({"ratio": 1.0}, {}, Order("BUY", Decimal("192.30"), Decimal("0.52"))),
        ({"mode": "fixed", "amount": 20}, {}, Order("BUY", Decimal("40.00"), Decimal("0.52"))),
        ({"tolerance": 0}, {}, Order("BUY", Decimal("100.00"), Decimal("0.50"))),
        ({}, {"side": "SELL"}, Order("SELL", Decimal("100.00"), Decimal("0.48"))),
        ({}, {"usdc": Decimal(995)}, Order("BUY", Decimal("100.00"), Decimal("0.99"))),
        ({}, {"side": "SELL", "usdc": Decimal(5)}, Order("SELL", Decimal("100.00"), Decimal("0.01"))),
        ({"sides": ("SELL",)}, {}, "BUY is not copied"),
        ({}, {"size": Decimal(10), "usdc": Decimal(5)}, "below the least"),
        ({"tolerance": 0}, {"usdc": Decimal(5)}, "no price on the tick"),
        ({}, {"timestamp": -700}, "700 s old"),
    ],
)
def test_a_copy_is_sized_by_its_rule(rule, change, wanted):
    planned = plan(
        TRADE._replace(**change), Rule(**{"min_order": 1.0, **rule}), CENT, -change.get("timestamp", 0), 600
    )

    if isinstance(wanted, str):
        assert isinstance(planned, Skip)
        assert wanted in planned.reason
    else:
        assert planned == wanted


@pytest.mark.parametrize("tick", ["0.01", "0.001", "0.1"])
@pytest.mark.parametrize("price", ["0.0004", "0.0137", "0.333333", "0.5", "0.9991"])
@pytest.mark.parametrize("tolerance", ["0", "0.05", "0.5"])
def test_a_limit_is_on_the_tick_and_within_the_tolerance(tick, price, tolerance):
    step, at, most = Decimal(tick), Decimal(price), Decimal(tolerance)
    buy, sell = limit("BUY", at, most, step), limit("SELL", at, most, step)

    assert buy is None or (buy % step == 0 and 0 < buy <= at * (1 + most) and buy < 1)
    assert sell is None or (sell % step == 0 and at * (1 - most) <= sell < 1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ratio": 0}, "above zero"),
        ({"min_order": 5, "max_order": 1}, "no range"),
        ({"max_orders": 1001}, "0 to 1000"),
        ({"tolerance": 1}, "below 1"),
        ({"max_loss": -1}, "below 1"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Rule(**fields)


# ----- counts


def test_an_order_is_counted_once_however_often_and_the_limit_holds():
    day = book.count(None, "a", Decimal(0), True, (2, 10.0))
    day = book.count(day, "a", Decimal(0), True, (2, 10.0))  # type: ignore[arg-type]
    day = book.count(day, "b", Decimal(0), True, (2, 10.0))  # type: ignore[arg-type]

    assert "2 orders a day" in str(book.count(day, "c", Decimal(0), True, (2, 10.0)))  # type: ignore[arg-type]
    freed = book.correct(day, "a", None)  # type: ignore[arg-type]
    assert isinstance(book.count(freed, "c", Decimal(0), True, (2, 10.0)), dict)
    assert book.correct(freed, "a", None) is None


def test_after_a_day_s_loss_nothing_is_bought_but_still_sold():
    day = {"orders": {"a": "12", "b": "-1"}}

    assert "lost today" in str(book.count(day, "c", Decimal(0), True, (9, 10.0)))
    assert isinstance(book.count(day, "c", Decimal(5), False, (9, 10.0)), dict)
    assert book.correct(day, "a", Decimal(12)) is None
    assert book.correct(day, "a", Decimal(3)) == {"orders": {"b": "-1", "a": "3"}}


def test_what_is_held_is_sold_once_and_costs_what_it_cost():
    held = book.book(None, "a", "BUY", Decimal(10), Decimal(4))
    assert book.book(held, "a", "BUY", Decimal(10), Decimal(4)) is None
    held = book.sell(held, "s", Decimal(8))
    assert held is not None
    assert book.available(held, "t") == 2
    assert book.sell(held, "t", Decimal(5))["selling"] == {"s": "8", "t": "2"}  # type: ignore[index]
    assert book.unit_cost(held) == Decimal("0.4")
    after = book.book(held, "s", "SELL", Decimal(8), Decimal(1))
    assert after is not None
    assert (after["size"], Decimal(after["cost"]), after["selling"]) == ("2", Decimal("0.8"), {})
    assert book.let_go(held, "s") == {**held, "selling": {}}
    assert book.let_go(after, "s") is None
    assert book.sell(None, "s", Decimal(1)) is None


# ----- settings


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"leaders": ()}, "name the wallets"),
        ({"leaders": ("bob",)}, "'bob' is no wallet"),
        ({"leaders": (ME, ME.upper().replace("0X", "0x"))}, "named twice"),
        ({"rules": {"bob": Rule()}}, "'bob' is no wallet"),
        ({"depth": 0}, "depth is 0"),
        ({"tick": 1.0}, "tick is 1.0"),
        ({"orders_url": "ftp://x"}, "orders_url"),
        ({"streams": ("https://x.example",)}, "scheme"),
        ({"nodes": ("http://127.0.0.1",)}, "private"),
        ({"max_age": "soon"}, "max_age"),
        ({"keep": "1m"}, "raise keep"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(change, says):
    with pytest.raises((Misconfigured, ValueError), match=says):
        pipelines(Settings(**{"leaders": (ME,), **change}), Live())


# ----- recordings


@recorded
def test_recorded_orders_are_read_as_they_were_checked():
    for one in json.loads((FIXTURES / "polygon_chain" / "v2_order_filled_logs.json").read_text()):
        wanted = one["expected"]
        found = order(one["log"], [wanted["owner"]], 0)
        assert found is not None
        assert (found.side, found.asset) == (wanted["side"], wanted.get("token_id", found.asset))
        assert (found.size, found.usdc) == (Decimal(wanted["size"]), Decimal(wanted["usdc"]))


@recorded
def test_recorded_transfers_and_a_merge_are_no_trades():
    receipt = json.loads((FIXTURES / "polygon_chain" / "receipt_ctf_batch_burn_2021.json").read_text())
    receipt = receipt.get("result", receipt)
    wallets = {"0x" + one[-40:] for log in receipt["logs"] for one in log["topics"][1:]}

    assert trades(receipt, wallets, Contracts(), 0) == ([], [])


@recorded
@pytest.mark.parametrize("name", ["activity_mixed_types_50", "activity_trades_10"])
def test_recorded_activity_is_read_without_loss(name):
    rows = json.loads((FIXTURES / "polymarket_data_api" / f"{name}.json").read_text())
    found, broken = closed([Record(row_id(row), row, row["timestamp"]) for row in rows], 1e18)
    kept = [row for row in rows if row["type"] == "TRADE"]

    assert broken == []
    assert sum(Decimal(one.body["size"]) for one in found) == sum(Decimal(str(row["size"])) for row in kept)
    assert len(found) == len(summed(listed(row) for row in kept))
