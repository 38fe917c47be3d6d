"""What was recorded of the outside is read without loss. The files lie beside the repository, or nowhere."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from onefold.apps._polymarket import fill, fill_parts
from onefold.apps.candles.bars import TIMEFRAMES, checked, moment
from onefold.apps.candles.download import read_page
from onefold.apps.copytrade.answers import parse
from onefold.apps.copytrade.logs import Contracts, filters, order
from onefold.apps.copytrade.orders import Placed, placed
from onefold.core.calendar import expected, fx_week, open_in
from onefold.core.coverage import Span
from onefold.core.errors import Rejected
from onefold.core.wire import parse as parse_json
from onefold.runtime.http import NoAnswer
from onefold.worlds.chain import fits
from tests.checkout import FIXTURES

DAY = 86_400
UNREAD = {
    "clob_book_response.json": "no client of the exchange yet",
    "http_open_order.json": "no client of the exchange yet",
    "http_signed_order.json": "no client of the exchange yet",
}

pytestmark = pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")


def read(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text("utf-8"))


def rows(name: str) -> list[dict[str, str]]:
    with (FIXTURES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_recorded_file_is_read_by_a_test_or_named_with_the_reason_why_not():
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py"))
    patterns = re.findall(r'glob\("([^"]+\.json)"\)', tests)
    files = [path for path in FIXTURES.rglob("*.*") if path.name != "SOURCE.md"]
    unread = {
        path.name
        for path in files
        if path.stem not in tests and not any(fnmatch(path.name, pattern) for pattern in patterns)
    }

    assert files
    assert unread == set()


# ----- Polymarket


def test_recorded_whale_trades_are_each_a_fill_with_a_name_of_its_own():
    shown = rows("polymarket_data_api/whale_trades_13_wallets_newest_1500.csv")
    # The file leaves the token out; a market and its outcome name it as well.
    full = [
        {
            **row,
            "transactionHash": row["txhash"],
            "asset": f"{row['slug']} {row['outcome']}",
            "conditionId": "0x0",
        }
        for row in shown
    ]

    found = [fill(row) for row in full]

    assert len(found) == 1500
    assert len({fill_parts(row) for row in full}) == 1500
    assert sum(one.size for one in found) == sum(Decimal(row["size"]) for row in shown)
    assert max(Counter(one.timestamp for one in found).values()) == 14


# ----- a chain


def test_recorded_frames_of_a_subscription_are_logs_or_confirmations():
    heard = [
        one["msg"] for one in read("polygon_chain/eth_subscribe_session.json")["frames"] if one["dir"] == "in"
    ]
    logs = [one["params"]["result"] for one in heard if "method" in one]

    records = [parse(json.dumps(one)) for one in heard]

    assert [one.body["log"] for one in records if one] == logs
    assert [one.at for one in records if one] == [int(log["blockNumber"], 16) for log in logs]
    assert {bool(log.get("removed")) for log in logs} == {True, False}


def test_recorded_transfers_announce_a_transaction_and_are_no_order():
    for one in read("polygon_chain/erc1155_transfer_logs.json"):
        wallets = [one["expected"]["from"], one["expected"]["to"]]
        asked = filters(wallets, Contracts())

        assert any(fits(one["log"], wanted) for wanted in asked)
        assert order(one["log"], wallets, 0) is None


# ----- an order service


def test_recorded_answers_to_orders_say_what_is_known():
    with pytest.raises(Rejected, match="Insufficient balance"):
        placed(read("polymarket_clob/http_order_response_failed.json"))
    with pytest.raises(NoAnswer, match="says nothing"):
        placed(read("polymarket_clob/http_order_response_error_500.json"))
    taken = read("polymarket_clob/http_order_response_ok.json")
    with pytest.raises(NoAnswer, match="filled"):
        placed(taken)
    assert placed({**taken, "filled": "5.0", "at": 0.5}) == Placed(
        taken["orderID"], Decimal("5.0"), Decimal("0.5")
    )


# ----- bars


@pytest.mark.parametrize("name", ["AAPL_1_day_2005-04-01", "AAPL_1_day_2005-04-02"])
def test_recorded_days_of_a_share_are_read_and_refused_as_days_of_utc(name):
    page = read_page(parse_json((FIXTURES / "polygon_io_aggs" / f"{name}.json").read_text()), "AAPL")
    span = Span(1_112_313_600, 1_112_313_600 + 7 * DAY)

    by_hours = checked(page.rows, "AAPL", TIMEFRAMES["1h"], span)
    by_days = checked(page.rows, "AAPL", TIMEFRAMES["1d"], span)

    assert (len(by_hours.bars), by_hours.invalid, page.following) == (2, [], None)
    # They begin at midnight of New York: stored as days of UTC they would lie in the wrong tile.
    assert (by_days.bars, len(by_days.invalid)) == ([], 2)
    assert "no bar of 1d starts" in str(by_days.invalid[0])


@pytest.mark.parametrize(
    "name", ["fxcm_GBPUSD_m1_bid_2012-02-02_to_02-07", "fxcm_GBPUSD_m1_ask_2012-02-02_to_02-07"]
)
def test_recorded_minutes_of_both_sides_are_bars_without_exception(name):
    shown = rows(f"forex_bars/{name}.csv")
    span = Span(stamp(shown[0]) // DAY * DAY, stamp(shown[-1]) // DAY * DAY + DAY)
    given = [
        {
            "t": stamp(row) * 1000,
            "v": 1,
            **{name[0]: float(row[name]) for name in ("open", "high", "low", "close")},
        }
        for row in shown
    ]

    found = checked(given, "GBP/USD", TIMEFRAMES["1m"], span)

    assert (len(found.bars), found.invalid, found.repeated) == (len(shown), [], 0)
    assert len(found.bars) < expected(span, 60, fx_week())


def test_recorded_ticks_begin_when_the_recorded_holiday_ends():
    holidays = read("forex_bars/dukascopy_instrument_EURUSD_holidays.json")["holidays"]
    calendar = fx_week(Span(one["from"] / 1000, one["till"] / 1000) for one in holidays)
    ticks = [stamp(row) for row in rows("forex_bars/truefx_USDJPY_ticks_2013-01-01.csv")]
    new_year = Span(ticks[0] // DAY * DAY, ticks[0] // DAY * DAY + DAY)

    [stretch] = open_in(new_year, calendar)

    assert moment(int(stretch.since)) == "2013-01-01T22:00:00Z"
    assert all(tick >= stretch.since for tick in ticks)
    assert ticks[0] - stretch.since < 60


def stamp(row: dict[str, str]) -> int:
    return int(datetime.fromisoformat(row["timestamp"]).timestamp())
