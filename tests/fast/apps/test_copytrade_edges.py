"""Copytrade at its edges: what is not the leader's, rows that overlap, exits, prices that cannot be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from onefold.apps._polymarket import Markets, answered, counted, fill, market
from onefold.apps.copytrade import answers, book, pipelines
from onefold.apps.copytrade.copies import Copies
from onefold.apps.copytrade.following import Following
from onefold.apps.copytrade.logs import Contracts, order, trades
from onefold.apps.copytrade.orders import Placed, Remote, placed
from onefold.apps.copytrade.sizing import Rule, Skip, plan
from onefold.apps.copytrade.trades import Trade, row_id, row_name, row_of, trade
from onefold.core.cursor import Cursor
from onefold.core.errors import Later, Refused, Rejected
from onefold.core.key import Key
from onefold.core.record import Page, Record
from onefold.drive import AsyncPorts, Inline
from onefold.runtime import current
from onefold.runtime.http import NoAnswer
from onefold.stores.memory import MemoryStore
from onefold.worker.settings import Live
from onefold.worlds import matches
from onefold.worlds.chain import Chain, Transaction
from onefold.worlds.matches import MILLION, match
from onefold.worlds.polymarket import Polymarket
from onefold.worlds.site import Response, Site
from tests.fast.apps.copying import ALL, Stage, deed, settings, stage, worker
from tests.fast.apps.copying import fill as order_of
from tests.fast.apps.test_copytrade_parts import ASSET, BUY, CENT, ME, ROW
from tests.fast.worker.stage import run_until

STRANGER = "0x" + "57" * 20


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def pages_of(rows: list[dict[str, Any]]) -> Callable[[Any], Response]:
    """Show rows in the pages that are asked for."""

    def page(request: Any) -> Response:
        at = int(request.query["offset"])
        return Response(rows[at : at + int(request.query["limit"])])

    return page


def row(**change: Any) -> dict[str, Any]:
    return {**ROW, "proxyWallet": ME, "timestamp": int(current().time()) - 60, **change}


# ----- whose answer it is


def test_rows_of_another_wallet_are_parked_and_never_copied(file):
    mine = row(transactionHash="0x01", size=100, price=0.5)
    strange = row(transactionHash="0x02", size=100, price=0.5, proxyWallet=STRANGER)
    nobody = row(transactionHash="0x03", size=100, price=0.5, proxyWallet=None)
    with stage() as on:
        on.data.routes["GET", "/activity"] = pages_of([strange, mine, nobody])
        one = worker(settings(on, leaders=(ME,)), file, ("activity",))
        tally = one.tallies["copytrade"]
        run_until(one, lambda: tally.total("broken") >= 2 and on.copied().total() >= 1)

    assert list(on.copied()) == [f"{ME}/0x01/{ASSET}/BUY"]
    assert tally.total("broken") == 2


@pytest.mark.parametrize("wallet", [STRANGER, "", None, 5, [ME], ME[:-1], ME + " "])
def test_a_row_is_named_for_its_own_leader_alone(wallet):
    with pytest.raises(ValueError, match="was asked for"):
        row_of(ME)({**ROW, "proxyWallet": wallet})


def test_the_default_rule_copies_configured_leaders_and_nobody_else():
    async def prepare(on: Stage) -> Any:
        live = Live("copytrade.")
        await live.attend(AsyncPorts(Inline(MemoryStore())))
        sink = pipelines(settings(on, leaders=(ME,), rules={"*": ALL, STRANGER: ALL}), live).sink
        body = Trade(STRANGER, "0x1", ASSET, "BUY", Decimal(100), Decimal(50), 0).body()
        claim: Any = SimpleNamespace(key=Key("copytrade", "x"), request=None)
        return await sink.prepare(claim, Record("x", body, 0))  # type: ignore[attr-defined]

    with stage() as on:
        request = anyio.run(prepare, on)

    assert request == {"skip": f"{STRANGER} is not one of the leaders that are copied"}


def gamma(number: int, **change: Any) -> dict[str, Any]:
    """Make a market as Gamma shows it."""
    tokens = f'["{10**70 + 2 * number}", "{10**70 + 2 * number + 1}"]'
    return {"conditionId": f"0xC{number}", "clobTokenIds": tokens, "closed": False, **change}


def token(number: int) -> str:
    return str(10**70 + 2 * number)


def test_a_market_that_was_not_asked_for_is_set_apart_and_never_remembered():
    other = gamma(9)
    with Polymarket() as data:
        data.routes["GET", "/markets"] = lambda request: Response([other, gamma(0), gamma(1, closed=3)])
        markets = Markets(data.url, by="clob_token_ids")
        found = anyio.run(markets.get, [token(0), token(1)])
        with pytest.raises(Refused, match="a row of its answer was set apart: it is the market 0xc9"):
            anyio.run(markets.one, token(1))
        data.routes["GET", "/markets"] = lambda request: Response([])
        later = anyio.run(markets.get, [token(9), str(int(token(9)) + 1)])

    assert {one.condition for one in found.values()} == {"0xc0"}
    assert later == {}


def test_an_answer_without_a_list_of_markets_is_no_answer():
    with Polymarket() as data:
        data.routes["GET", "/markets"] = lambda request: Response({"error": "later"})
        with pytest.raises(Exception, match="no list of rows"):
            anyio.run(Markets(data.url).get, ["0xc0"])


ANSWER = {"success": True, "orderID": "o", "filled": "1.00", "at": "0.5", "client_id": "mine"}
ORDER = {"client_id": "mine", "asset": ASSET, "side": "BUY"}


@pytest.mark.parametrize("change", [{"client_id": "theirs"}, {"asset": "7"}, {"side": "SELL"}])
@pytest.mark.parametrize("success", [True, False])
def test_an_answer_about_another_order_says_nothing_of_ours(change, success):
    with pytest.raises(NoAnswer, match="about an order with"):
        placed({**ANSWER, "success": success, "errorMsg": "no", **change}, ORDER)
    assert placed(ANSWER, ORDER) == Placed("o", Decimal("1.00"), Decimal("0.5"))


@pytest.mark.parametrize(
    "change",
    [
        {"success": "false"},
        {"success": 1},
        {"filled": "NaN"},
        {"filled": -1},
        {"filled": True},
        {"filled": [1]},
        {"at": 1.5},
        {"at": 0},
        {"at": "1e999999"},
    ],
)
def test_an_answer_that_cannot_be_read_leaves_the_order_in_doubt(change):
    with pytest.raises(NoAnswer):
        placed({**ANSWER, **change}, ORDER)


@pytest.mark.parametrize("nothing", [0, 0.0, "0", "0.00"])
def test_an_order_of_which_nothing_was_filled_has_no_price(nothing):
    assert placed({**ANSWER, "filled": nothing, "at": 0}, ORDER) == Placed("o", Decimal(0), Decimal(0))


def test_an_order_whose_answer_is_about_another_is_looked_for():
    routes = {
        ("POST", "/orders"): lambda request: Response({**ANSWER, "client_id": "theirs"}),
        ("GET", "/orders/*"): lambda request: Response({**ANSWER, "filled": 3}),
    }
    with Site(routes) as site:
        remote = Remote(site.url, None)

        async def both() -> Placed:
            try:
                return await remote.place(ORDER)
            finally:
                await remote.aclose()

        found = anyio.run(both)

    assert found.size == 3
    assert [request.method for request in site.requests] == ["POST", "GET"]


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000])
def test_an_order_service_that_talks_nonsense_has_said_nothing(body):
    with Site({("GET", "/orders/*"): lambda request: Response(body)}) as site:
        remote = Remote(site.url, None)

        async def find() -> None:
            try:
                await remote.find("mine")
            finally:
                await remote.aclose()

        with pytest.raises(NoAnswer):
            anyio.run(find)


# ----- rows that overlap


def read(on: Stage, rows: list[dict[str, Any]]) -> list[Trade]:
    """Read a list of activity in the pages that the app asks for."""
    on.data.routes["GET", "/activity"] = pages_of(rows)
    following = pipelines(settings(on, leaders=(ME,)), Live()).sources["activity"]
    assert isinstance(following, Following)
    source = following._make(ME, current().time() - 600)

    async def round_() -> list[Page]:
        return [page async for page in source.read(Cursor())]

    shown = [record for page in anyio.run(round_) for record in page.records]
    return [trade(one.body) for one in shown]


def crowd(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Put rows into the overlap of the first two pages."""
    now = int(current().time())
    others = [row(transactionHash=f"0x{n:064x}", timestamp=now - 100 - n, size=1) for n in range(120)]
    found = [{**one, "timestamp": others[94]["timestamp"]} for one in rows]
    return [*others[:95], *found, *others[95:]]


def test_two_fills_of_one_size_and_two_prices_in_the_overlap_of_pages_add_up_once():
    pair = row(transactionHash="0xAB", size=10, price=0.4), row(transactionHash="0xAB", size=10, price=0.5)
    with stage() as on:
        found = [one for one in read(on, crowd(*pair)) if one.transaction == "0xab"]

    assert [(one.size, one.price) for one in found] == [(Decimal(20), Decimal("0.45"))]


def test_fills_that_look_exactly_alike_add_up_and_one_that_was_reworded_in_between_does_not():
    pair = row(transactionHash="0xAB", size=10, name="a"), row(transactionHash="0xAB", size="10.0", name="a")
    with stage() as on:
        rows = crowd(*pair)
        renamed = [{**one, "name": "b", "size": 10.0} if one in pair else one for one in rows]
        looks = iter([rows, *[renamed] * 9])

        class Shifting(list[dict[str, Any]]):
            def __getitem__(self, place: Any) -> Any:
                return next(looks)[place]

        found = [one for one in read(on, Shifting(rows)) if one.transaction == "0xab"]

    assert [one.size for one in found] == [20]


@pytest.mark.parametrize("size", [10, 10.0, "10", "10.00", "1e1"])
def test_an_amount_has_one_name_however_it_is_written(size):
    assert row_id({**ROW, "size": size}) == row_id({**ROW, "size": 10})
    assert [one["repeat"] for one in counted([{**ROW, "size": size}, {**ROW, "size": 10}], row_name)] == [
        0,
        1,
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"price": 0.87}, {"size": 11}, {"side": "SELL"}, {"asset": "7"}, {"transactionHash": "0xAC"},
        {"usdcSize": 9.6}, {"conditionId": "0xC1"}, {"outcomeIndex": 1}, {"repeat": 1},
        {"proxyWallet": STRANGER}, {"type": "REDEEM"},
    ],
)  # fmt: skip
def test_rows_that_differ_in_anything_that_tells_fills_apart_have_different_ids(change):
    assert row_id({**ROW, **change}) != row_id(ROW)


# ----- exits


class Copier:
    """Copies trades one after another, and says what was ordered of each."""

    def __init__(self, on: Stage, file: Path, *, on_paper: bool = True, **rule: Any) -> None:
        self.live = Live("copytrade.")
        where = {"orders_url": "", "paper": str(file / "paper.db")} if on_paper else {}
        said = settings(on, **where, rules={"*": Rule(**rule)})
        sink = pipelines(said, self.live).sink
        assert isinstance(sink, Copies)
        self.sink = sink
        self._number = 0

    async def __call__(self, side: str, size: Any, price: Any = "0.5", age: int = 0) -> Any:
        self._number += 1
        at = int(current().time()) + self._number - age
        amounts = Decimal(size), Decimal(size) * Decimal(price)
        return await self.copy(Trade(ME, f"0x{self._number}", ASSET, side, *amounts, at, "0xc0"))  # type: ignore[arg-type]

    async def copy(self, one: Trade) -> Any:
        claim: Any = SimpleNamespace(key=Key("copytrade", *one.parts), request=None)
        record = Record("/".join(one.parts), one.body(), one.timestamp)
        claim.request = await self.sink.prepare(claim, record)
        [told] = await self.sink.put([(claim, record)])
        if isinstance(told, Exception):
            raise told
        return told.get("skipped") or Decimal(told["size"])


def copying(on: Stage, file: Path, script: Callable[[Copier], Awaitable[Any]], **rule: Any) -> Any:
    """Let a script copy trades on a ledger in memory."""

    async def play() -> Any:
        copy = Copier(on, file, **rule)
        await copy.live.attend(AsyncPorts(Inline(MemoryStore())))
        try:
            return await script(copy)
        finally:
            await copy.sink.aclose()

    return anyio.run(play)


def test_an_exit_is_copied_whole_though_every_limit_of_new_risk_is_passed(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        bought = [await copy("BUY", 400), await copy("BUY", 400)]  # of 40 shares each, at most
        refused = await copy("BUY", 400)
        sold = await copy("SELL", 1200, "0.1", age=100_000)
        return [*bought, refused, sold]

    limits = {"max_order": 20.8, "max_orders": 2, "min_order": 20.0, "max_loss": 1000.0}
    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.1, **limits)

    assert told == [40, 40, "2 orders a day are the limit", 80]


@pytest.mark.parametrize("mode", ["ratio", "fixed"])
def test_a_sale_follows_the_share_that_the_leader_sold(tmp_path, mode):
    async def script(copy: Copier) -> list[Any]:
        return [
            await copy("BUY", 100), await copy("BUY", 300), await copy("SELL", 100), await copy("SELL", 150),
            await copy("SELL", 150), await copy("SELL", 1),
        ]  # fmt: skip

    with stage() as on:
        told = copying(on, tmp_path, script, mode=mode, ratio=0.2, amount=40.0)

    assert told[:2] == ([20, 60] if mode == "ratio" else [80, 80])
    held = sum(told[:2])
    assert told[2:5] == [held / 4, held * 3 / 8, held * 3 / 8]
    assert told[5] == "nothing of it is held"


def test_a_leader_who_sells_more_than_was_seen_bought_is_followed_out_of_everything(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        return [
            await copy("BUY", 100),
            await copy("SELL", 5000),
            await copy("BUY", 100),
            await copy("SELL", 50),
        ]

    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.2)

    # What they sold beyond what was seen is forgotten: the next position begins at nothing.
    assert told == [20, 20, 20, 10]


def test_what_was_not_copied_still_counts_as_the_leaders(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        return [await copy("BUY", 100), await copy("BUY", 300, age=100_000), await copy("SELL", 100)]

    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.2)

    assert [told[0], told[2]] == [20, 5]
    assert "s old" in told[1]


def test_a_sale_that_was_set_aside_twice_sells_once_and_no_more_than_is_held(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        bought = await copy("BUY", 100)
        sale = Trade(ME, "0xee", ASSET, "SELL", Decimal(50), Decimal(25), int(current().time()) + 1, "0xc0")
        claim: Any = SimpleNamespace(key=Key("copytrade", *sale.parts), request=None)
        first = await copy.sink.prepare(claim, Record("x", sale.body(), 0))
        again = await copy.sink.prepare(claim, Record("x", sale.body(), 0))
        other = await copy.copy(sale._replace(transaction="0xef", timestamp=sale.timestamp + 1))
        return [bought, first["order"]["size"], again["order"]["size"], other]

    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.2)

    assert told == [20, "10.00", "10.00", 10]


@pytest.mark.parametrize("sells_between", [True, False])
def test_a_rejected_sale_that_is_retried_sells_nothing_that_another_one_sold(tmp_path, sells_between):
    async def script(copy: Copier) -> list[Any]:
        bought = await copy("BUY", 100)
        sale = Trade(ME, "0xee", ASSET, "SELL", Decimal(100), Decimal(50), int(current().time()) + 9, "0xc0")
        claim: Any = SimpleNamespace(key=Key("copytrade", *sale.parts), request=None)
        record = Record("x", sale.body(), 0)
        claim.request = await copy.sink.prepare(claim, record)
        on.orders.refuses = "not enough balance"
        [rejected] = await copy.sink.put([(claim, record)])
        on.orders.refuses = None
        other = await copy("SELL", 100) if sells_between else 0
        # A retry sends what was prepared; and once more, as if the answer to the first had been lost.
        attempts: list[Any] = [await copy.sink.put([(claim, record)]) for _ in range(2)]
        [[retried], [again]] = attempts
        assert isinstance(rejected, Rejected)
        assert again == retried
        return [bought, other, retried.get("skipped") or Decimal(retried["size"])]

    with stage() as on:
        told = copying(on, tmp_path, script, on_paper=False, ratio=0.2)

    if sells_between:
        assert told == [20, 20, "what it was to sell was sold by another order"]
    else:
        assert told == [20, 0, 20]


def test_a_sale_waits_for_the_purchase_before_it_and_not_for_ever(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        now = int(current().time())
        bought = Trade(ME, "0xb", ASSET, "BUY", Decimal(100), Decimal(50), now, "0xc0")
        sold = bought._replace(transaction="0xe", side="SELL", timestamp=now + 1)
        claim: Any = SimpleNamespace(key=Key("copytrade", *bought.parts), request=None)
        claim.request = await copy.sink.prepare(claim, Record("b", bought.body(), 0))
        with pytest.raises(Later, match="is being bought"):
            await copy.copy(sold)
        [_] = await copy.sink.put([(claim, Record("b", bought.body(), 0))])
        after = await copy.copy(sold)
        # A purchase that never comes to its end, and one that is not made, hold no sale up.
        later = bought._replace(transaction="0xc", timestamp=now + 2)
        claim = SimpleNamespace(key=Key("copytrade", *later.parts), request=None)
        await copy.sink.prepare(claim, Record("c", later.body(), 0))
        copy.sink._clock = lambda: now + book.PATIENCE + 10
        stale = await copy.copy(later._replace(transaction="0xf", side="SELL", timestamp=now + 3))
        skipped = await copy.copy(later._replace(transaction="0xd", timestamp=0))
        return [after, stale, skipped, await copy.copy(sold._replace(transaction="0x9", timestamp=now + 4))]

    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.2)

    assert told[:2] == [20, "nothing of it is held"]
    assert "s old" in told[2]
    assert told[3] == "nothing of it is held"


@pytest.mark.parametrize("only", [("chain",), ("activity",)], ids=["chain", "list"])
def test_a_purchase_and_the_exit_from_it_that_are_shown_together_are_both_copied(file, only):
    with stage() as on:
        on.leaders.act(deed(1, order_of()), deed(2, order_of(side="SELL")))
        said = settings(on, rules={"*": Rule(ratio=0.5)})
        run_until(worker(said, file, only), on.is_through)

    orders = [(line["side"], line["size"]) for line in on.orders.journal.of("order")]
    assert orders == [("BUY", "50.00"), ("SELL", "50.00")]


def test_a_rule_that_sells_more_than_is_held_has_its_limits_for_the_rest(tmp_path):
    async def script(copy: Copier) -> list[Any]:
        return [
            await copy("SELL", 1000), await copy("BUY", 100), await copy("SELL", 100),
            await copy("SELL", 100, age=100_000),
        ]  # fmt: skip

    with stage() as on:
        told = copying(on, tmp_path, script, ratio=0.2, only_held=False, max_order=24.0)

    assert told == [50, 20, 20, "nothing of it is held"]


def test_what_an_earlier_version_held_is_sold_whole_and_its_prepared_sales_have_no_limit(tmp_path):
    old = {"size": "30.00", "cost": "12", "selling": {}, "booked": ["a"]}

    assert book.part(book.saw(old, "s", 5, Decimal(-10)), "s") == 30
    assert isinstance(book.count({"orders": {"a": "0"}}, "s", Decimal(1), False, (1, 0.0), True), dict)


def test_trades_that_are_heard_of_late_are_put_where_they_belong():
    held = book.saw(None, "sale", 20, Decimal(-50))
    held = book.saw(held, "late", 10, Decimal(100))
    held = book.saw(held, "last", 30, Decimal(-50))

    assert book.share(held, "sale") == Decimal("0.5")
    assert book.share(held, "last") == 1
    assert book.saw(held, "late", 10, Decimal(100)) is None


def test_what_is_remembered_of_a_leader_and_of_a_day_stays_small():
    held: Any = None
    day: Any = None
    for number in range(500):
        held = book.saw(held, f"{number:032x}", number, Decimal(2 if number % 2 == 0 else -1))
        day = book.count(day, f"{number:032x}", Decimal("0.5"), False, (10, 1.0), True)

    assert len(held["seen"]) == book.SEEN
    assert book.share(held, f"{499:032x}") == Fraction(1, 251)
    assert len(day["sales"]) == book.SALES
    assert book.lost(day) == 250
    assert "lost today" in str(book.count(day, "b", Decimal(0), True, (10, 1.0)))
    assert book.correct(day, f"{499:032x}", Decimal(0))["sales"][f"{499:032x}"] == "0"  # type: ignore[index]


def test_a_rest_that_nobody_could_order_counts_as_everything():
    held = book.saw(None, "b", 1, Decimal("100.000001"))
    held = book.saw(held, "s", 2, Decimal(-100))

    assert book.share(held, "s") == 1


def test_a_leaders_exit_through_the_worker_is_whole(file):
    rule = Rule(ratio=0.5, max_order=30.0, max_orders=1, min_order=5.0)
    with stage() as on:
        said = settings(on, rules={"*": rule})
        on.leaders.act(deed(1, order_of(size=200 * MILLION, usdc=100 * MILLION)))
        run_until(worker(said, file), lambda: on.copied().total() == 1)
        on.leaders.act(deed(2, order_of(side="SELL", size=50 * MILLION, usdc=25 * MILLION)))
        run_until(worker(said, file), lambda: on.copied().total() == 2)
        on.leaders.act(deed(3, order_of(side="SELL", size=150 * MILLION, usdc=3 * MILLION)))
        run_until(worker(said, file), lambda: on.copied().total() == 3)

    sizes = [Decimal(line["size"]) for line in on.orders.journal.of("order")]
    assert sizes[0] == Decimal("57.69")  # 30 dollars at 0.52
    assert sizes[1] == Decimal("14.42")
    assert sum(sizes[1:]) == sizes[0]


# ----- prices and markets that cannot be


@pytest.mark.parametrize(
    "price", [1.5, 2, "1.000001", 0, -0.5, "NaN", "1e999999", True, None, [0.5], "½", "1_0"]
)
def test_a_price_outside_of_0_and_1_is_broken_input(price):
    with pytest.raises(ValueError, match="its price is"):
        fill({**ROW, "price": price})
    assert fill({**ROW, "price": 1}).price == 1


@pytest.mark.parametrize("size", ["1e18", "1e-19", "0." + "3" * 40, "9" * 500, " 1", "1٢3"])
def test_an_amount_that_nobody_can_mean_is_broken_input(size):
    with pytest.raises(ValueError, match="its size is"):
        fill({**ROW, "size": size})


def test_an_order_on_chain_above_a_dollar_is_broken_input():
    with pytest.raises(ValueError, match=r"a price of 1\.5000, above 1"):
        order({**matches.filled(BUY._replace(usdc=150 * MILLION), 1), "transactionHash": "0x1"}, [ME], 0)
    planned = plan(Trade(ME, "0x1", ASSET, "BUY", Decimal(10), Decimal(15), 0), Rule(), CENT, 0, 600)
    assert planned == Skip("its price is 1.5000, outside of 0 and 1")


@pytest.mark.parametrize("change", [{"data": None}, {"data": 5}, {"topics": None}, {"address": None}])
def test_a_receipt_with_null_where_a_text_belongs_is_told_and_not_raised(change):
    chain = Chain()
    block = chain.mine(Transaction("0x01", match([BUY])))
    receipt: Any = block.receipt("0x01")
    spoiled = {**receipt, "logs": [{**log, **change} for log in receipt["logs"]]}

    found, broken = trades(spoiled, [ME], Contracts(), 0)

    assert found == []
    assert broken


def test_a_receipt_without_a_list_of_logs_is_refused():
    chain = Chain()
    name = f"0x{1:064x}"
    shown: Any = chain.mine(Transaction(name, match([BUY]))).receipt(name)

    with pytest.raises(ValueError, match="has no list of logs"):
        answers.receipt({**shown, "logs": None}, name)


@pytest.mark.parametrize(
    ("shown", "closed"),
    [("false", False), ("true", True), ("False", False), (False, False), (True, True), (None, False)],
)
def test_a_flag_that_comes_as_a_text_is_read(shown, closed):
    assert market(gamma(0, closed=shown)).closed is closed


def test_a_market_with_an_empty_tick_has_none_and_a_bad_one_spoils_no_neighbour():
    rows = [gamma(0, orderPriceMinTickSize=""), gamma(1, orderPriceMinTickSize=0), gamma(2, closed="no"),
            None, gamma(3, orderPriceMinTickSize="0.001")]  # fmt: skip
    asked = {token(number) for number in range(5)}

    found, broken = answered(rows, "clob_token_ids", asked)

    assert {name: one.tick for name, one in found.items()} == {token(0): None, token(3): Decimal("0.001")}
    assert len(broken) == 3


def test_a_service_that_refuses_is_still_believed():
    with pytest.raises(Rejected):
        placed({"success": False, "errorMsg": "no balance"}, ORDER)
