"""Whales: every large fill is told to every subscriber once, counted from the chat's own journal."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from decimal import Decimal
from typing import Any

import anyio
import pytest

from onefold.apps._polymarket import counted, fill, fill_parts, market
from onefold.apps.whales import Settings, pipelines
from onefold.apps.whales.beginning import FirstStart
from onefold.apps.whales.filters import Subscriber, fits, needs_market, wants
from onefold.apps.whales.words import told
from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.terms import Terms
from onefold.drive import AsyncPorts, Inline
from onefold.runtime import current
from onefold.sinks.pace import Rates
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worlds.chat import TOKEN, ChatWorld
from onefold.worlds.mischief import Mischief
from onefold.worlds.polymarket import Polymarket
from tests.checkout import FIXTURES
from tests.fast.worker.stage import run_until

ALL = Subscriber(chat="all")
LARGE = Subscriber(chat="large", min_notional=50_000)
BUYERS = Subscriber(chat="buyers", sides=("BUY",), max_price=0.5)
CRYPTO = Subscriber(chat="crypto", categories=("Crypto",))
NOT_SPORTS = Subscriber(chat="not-sports", exclude_categories=("sports",))
OFF = Subscriber(chat="off", enabled=False)


def settings(data: Polymarket, chat: ChatWorld, *subscribers: Subscriber, **more) -> Settings:
    return Settings(
        chat_token=Secret(TOKEN),
        subscribers=subscribers,
        every="50ms",
        page=20,
        data_url=data.url,
        gamma_url=data.url,
        chat_url=chat.url,
        chat_pace=Rates(0.0, 0.0, 0.0),
        **{"since": "forever", **more},
    )


def worker(said: Settings, store: Any, terms: Terms | None = None) -> Worker:
    live = Live("whales.")
    plan = pipelines(said, live)
    plan = dataclasses.replace(plan, terms=terms or plan.terms)
    return Worker([plan], store=store, grace=5, beside=[live.attend])


def transactions(chat: ChatWorld) -> Counter[tuple[str, str]]:
    """Count what readers saw, by chat and transaction."""
    return Counter(
        (line["chat"], line["text"].rpartition("/tx/")[2].partition('"')[0])
        for line in chat.journal.of("message")
    )


def expected(data: Polymarket, *subscribers: Subscriber) -> Counter[tuple[str, str]]:
    """Say who should have heard of what, from the world's own journal."""
    tags = {row["conditionId"]: {tag["slug"] for tag in row["tags"]} for row in data.markets}
    wanted: Counter[tuple[str, str]] = Counter()
    for line in data.journal.of("fill"):
        notional = Decimal(str(line["size"])) * Decimal(str(line["price"]))
        for who in subscribers:
            categories = {one.lower() for one in who.categories}
            excluded = {one.lower() for one in who.exclude_categories}
            fine = (
                who.enabled
                and notional >= Decimal(str(who.min_notional))
                and who.min_price <= line["price"] <= who.max_price
                and (not who.sides or line["side"] in who.sides)
                and (not categories or categories & tags[line["conditionId"]])
                and not excluded & tags[line["conditionId"]]
            )
            if fine:
                wanted[who.chat, line["transactionHash"]] += 1
    return wanted


def test_every_large_trade_is_told_to_every_subscriber_once(store):
    audience = (ALL, LARGE, BUYERS, CRYPTO, NOT_SPORTS, OFF)
    with (
        Polymarket(Mischief(3, {"busy": 0.05, "error": 0.05, "stall": 0.05}, 0.05)) as data,
        ChatWorld() as chat,
    ):
        data.happen(*data.draw(1, 60, int(current().time()) - 30))
        data.unknown_for["0x" + "0" * 64] = 4
        wanted = expected(data, *audience)
        said = settings(data, chat, *audience)
        run_until(worker(said, store), lambda: transactions(chat).total() >= wanted.total())
        data.happen(*data.draw(2, 20, int(current().time())))
        wanted = expected(data, *audience)
        run_until(worker(said, store), lambda: transactions(chat).total() >= wanted.total())

    assert transactions(chat) == wanted


# ----- the first start


def stamped(data: Polymarket, seed: int, *times: float) -> list[dict[str, Any]]:
    """Draw fills of these times, each in a transaction of its own."""
    return [{**data.draw(seed + place, 1, 0)[0], "timestamp": int(at)} for place, at in enumerate(times)]


def told_of(chat: ChatWorld) -> set[str]:
    return {transaction for _, transaction in transactions(chat)}


def test_a_first_start_tells_nothing_that_happened_before_it(tmp_path):
    now = current().time()
    with Polymarket() as data, ChatWorld() as chat:
        old = stamped(data, 10, now - 4 * 86_400, now - 3600, now - 30, now - 2)
        data.happen(*old)
        one = worker(settings(data, chat, ALL, since="now"), f"sqlite:///{tmp_path / 'o.db'}")
        fresh: list[dict[str, Any]] = []

        def through() -> bool:
            if one.ready and not fresh:
                fresh.extend(stamped(data, 20, current().time() + 1))
                data.happen(*fresh)
            # Once more: what is behind the new cursor by less than its lag is read again.
            return bool(fresh) and told_of(chat) >= {fresh[0]["transactionHash"]} and reads(data) > 8

        run_until(one, through)

    assert told_of(chat) == {fresh[0]["transactionHash"]}


def reads(data: Polymarket) -> int:
    return sum(one.path == "/trades" for one in data.requests)


@pytest.mark.parametrize(
    ("since", "wanted"),
    [("2h", [2, 3]), ("forever", [0, 1, 2, 3]), ("%Y-%m-%dT%H:%M:%SZ", [1, 2, 3])],
    ids=["duration", "all", "time"],
)
def test_a_first_start_begins_where_since_says(tmp_path, since, wanted):
    now = current().time()
    since = time.strftime(since, time.gmtime(now - 3 * 86_400))
    with Polymarket() as data, ChatWorld() as chat:
        old = stamped(data, 10, now - 4 * 86_400, now - 2 * 86_400, now - 3600, now - 60)
        data.happen(*old)
        names = {old[place]["transactionHash"] for place in wanted}
        one = worker(settings(data, chat, ALL, since=since), f"sqlite:///{tmp_path / 'o.db'}")
        run_until(one, lambda: told_of(chat) >= names and one.ready)

    assert told_of(chat) == names


def test_a_later_start_begins_where_the_first_one_did_until_a_fill_was_read():
    async def starts() -> list[float | None]:
        live = Live("whales.")
        await live.attend(AsyncPorts(Inline(MemoryStore())))
        at = [FirstStart("now", live, clock=iter([now]).__next__) for now in (1000.7, 4600.0)]
        said = FirstStart("1h", live, clock=lambda: 9000.0)
        return [
            await at[0](Cursor()),
            await at[1](Cursor()),
            await at[1](Cursor(2000)),
            await said(Cursor()),  # nothing was read yet, and the setting was changed
            await at[1](Cursor(2000)),
        ]

    assert anyio.run(starts) == [1000.0, 1000.0, 1000.0, 5400.0, 5400.0]


def test_a_ledger_of_an_older_version_goes_on_at_its_cursor():
    async def began() -> float | None:
        live = Live("whales.")
        await live.attend(AsyncPorts(Inline(MemoryStore())))
        return await FirstStart("now", live)(Cursor(2000))

    assert anyio.run(began) is None


def test_a_fill_that_is_older_than_max_age_is_not_told_and_is_counted(tmp_path):
    now = current().time()
    with Polymarket() as data, ChatWorld() as chat:
        rows = stamped(data, 10, now - 7200, now - 60)
        data.happen(*rows)
        one = worker(settings(data, chat, ALL, max_age="1h"), f"sqlite:///{tmp_path / 'o.db'}")
        run_until(one, lambda: bool(told_of(chat)) and one.ready)

    assert told_of(chat) == {rows[1]["transactionHash"]}
    assert one.tallies["whales"].total("filtered") >= 1


def test_fills_that_look_exactly_alike_are_counted_and_each_is_told(tmp_path):
    with Polymarket() as data, ChatWorld() as chat:
        [row] = data.draw(1, 1, int(current().time()) - 5)
        data.happen(row, dict(row), dict(row))
        one = worker(settings(data, chat, ALL), f"sqlite:///{tmp_path / 'o.db'}")
        run_until(one, lambda: transactions(chat).total() >= 3)

    assert transactions(chat) == {("all", row["transactionHash"]): 3}


def test_a_second_fill_of_the_same_second_is_told_too(tmp_path):
    # The seed's own test asks for the opposite.
    with Polymarket() as data, ChatWorld() as chat:
        first, second = data.draw(5, 2, int(current().time()) - 5)
        second["timestamp"] = first["timestamp"]
        data.happen(first)
        url = f"sqlite:///{tmp_path / 'o.db'}"
        run_until(worker(settings(data, chat, ALL), url), lambda: transactions(chat).total() == 1)
        data.happen(second)
        run_until(worker(settings(data, chat, ALL), url), lambda: transactions(chat).total() == 2)

    assert transactions(chat) == expected(data, ALL)


def test_an_edge_cached_page_does_not_hide_what_is_new(tmp_path):
    with Polymarket() as data, ChatWorld() as chat:
        data.trades.cached_for = 1000
        data.happen(*data.draw(1, 3, int(current().time()) - 5))
        one = worker(settings(data, chat, ALL), f"sqlite:///{tmp_path / 'o.db'}")

        def grown() -> bool:
            if transactions(chat).total() == 3 and data.trades.asked < 10_000:
                data.happen(*data.draw(2, 1, int(current().time())))
                data.trades.asked += 10_000
            return transactions(chat).total() == 4

        run_until(one, grown)

    assert transactions(chat) == expected(data, ALL)


def test_a_market_that_is_not_known_yet_is_asked_for_again_and_nobody_is_passed_over(tmp_path):
    with Polymarket() as data, ChatWorld() as chat:
        data.happen(*data.draw(1, 10, int(current().time()) - 5))
        for row in data.markets:
            data.unknown_for[row["conditionId"]] = 2
        wanted = expected(data, CRYPTO)
        one = worker(settings(data, chat, CRYPTO), f"sqlite:///{tmp_path / 'o.db'}")
        run_until(one, lambda: transactions(chat).total() >= wanted.total() > 0)

    assert transactions(chat) == wanted


ROW = {
    "proxyWallet": "0xABCDEF0000000000000000000000000000001234",
    "side": "BUY",
    "asset": "1" * 70,
    "conditionId": "0xC0",
    "size": 2000.5,
    "price": 0.860000001148,
    "timestamp": 1_700_000_000,
    "title": "Fed <cuts> & runs?",
    "slug": "fed",
    "outcome": "Yes",
    "outcomeIndex": 0,
    "name": "<i>bob",
    "transactionHash": "0xAB",
}


def test_a_title_with_tags_is_escaped_in_an_alert():
    text = told(fill(ROW))

    assert "Fed &lt;cuts&gt; &amp; runs?" in text
    assert "&lt;i&gt;bob (0xabcd…1234)" in text
    assert "$1,720 trade" in text
    assert "86.0 %" in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"side": ""}, "neither BUY nor SELL"),
        ({"size": "NaN"}, "not above zero"),
        ({"price": None}, "no number"),
        ({"price": -1}, "not above zero"),
        ({"transactionHash": 5}, "no text"),
        ({"proxyWallet": ""}, "no text"),
    ],
)
def test_a_row_that_is_no_fill_is_refused_with_the_reason(change, says):
    with pytest.raises(ValueError, match=says):
        fill({**ROW, **change})


def test_the_key_of_a_fill_is_not_its_transaction_alone():
    other = {**ROW, "asset": "2" * 70}

    assert fill_parts(ROW) != fill_parts(other)
    assert fill_parts(ROW) == fill_parts({**ROW, "title": "renamed", "name": "other"})
    assert [row["repeat"] for row in counted([ROW, other, dict(ROW)])] == [0, 0, 1]
    body: Any = {"error": "busy"}
    assert counted(body) is body
    assert counted(["odd"]) == ["odd"]


@pytest.mark.parametrize(
    ("who", "wanted"),
    [
        (Subscriber(chat="c"), True),
        (Subscriber(chat="c", min_notional=1720), True),
        (Subscriber(chat="c", min_notional=1721), False),
        (Subscriber(chat="c", min_price=0.87), False),
        (Subscriber(chat="c", max_price=0.85), False),
        (Subscriber(chat="c", sides=("SELL",)), False),
        (Subscriber(chat="c", markets=("FED",)), True),
        (Subscriber(chat="c", markets=("0xc0",)), True),
        (Subscriber(chat="c", markets=("other",)), False),
        (Subscriber(chat="c", enabled=False), False),
    ],
)
def test_a_filter_decides_by_the_fill(who, wanted):
    assert wants(who, fill(ROW)) is wanted


def test_a_filter_decides_by_the_market():
    known = market({"conditionId": "0xC0", "category": "Economy", "tags": [{"slug": "fed"}, "odd"]})

    assert fits(Subscriber(chat="c", categories=("ECONOMY",)), known)
    assert not fits(Subscriber(chat="c", categories=("sports",)), known)
    assert not fits(Subscriber(chat="c", exclude_categories=("Fed",)), known)
    assert needs_market(Subscriber(chat="c", categories=("x",)))
    assert not needs_market(ALL)


def test_an_outcome_is_called_as_its_market_calls_it_and_not_yes_or_no():
    row = {**ROW, "outcome": "Down", "outcomeIndex": 1}

    assert "BUY Down at" in told(fill(row))
    assert fill_parts(row) != fill_parts({**row, "asset": "2" * 70}), "the token names it, not the word"


@pytest.mark.parametrize("outcomes", ['["Up", "Down"]', "not json", None, '{"a": 1}'])
def test_lists_inside_of_texts_are_read_or_empty(outcomes):
    found = market({"conditionId": "0xC0", "outcomes": outcomes, "closed": True})

    assert found.outcomes == (("Up", "Down") if outcomes == '["Up", "Down"]' else ())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"keep": "1d"}, "raise keep"),
        ({"page": 1}, "page is 1"),
        ({"minimum": -1.0}, "minimum is -1"),
        ({"since": "yesterday"}, "since is 'yesterday': write now"),
        ({"since": "2026-05-01T00:00:00"}, "without a time zone"),
        ({"max_age": "long"}, "max_age is 'long'"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, says):
    with pytest.raises((Misconfigured, ValueError), match=says):
        pipelines(Settings(chat_token=Secret("123456:token"), **change), Live())


@pytest.mark.parametrize(
    ("fields", "says"), [({"chat": ""}, "no chat"), ({"chat": "c", "min_price": 2.0}, "range")]
)
def test_a_subscriber_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Subscriber(**fields)


@pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded data is not here")
def test_recorded_trades_and_markets_parse_without_loss():
    rows = json.loads((FIXTURES / "polymarket_data_api" / "trades_global_3.json").read_text())
    for row in counted(rows):
        assert fill(row).transaction == row["transactionHash"].lower()
    for file in (FIXTURES / "polymarket_gamma").glob("market*.json"):
        shown = json.loads(file.read_text())
        for one in shown if isinstance(shown, list) else [shown]:
            found = market(one)
            assert len(found.outcomes) == len(found.assets) == 2
