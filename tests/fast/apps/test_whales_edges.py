"""Whales at its edges: a bad row in the feed, and a ledger that an earlier version wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from onefold import Key, Ledger
from onefold.apps._polymarket import counted, fill_parts, former_parts
from onefold.apps.whales.seed import SCOPE, Trades
from onefold.runtime import current
from onefold.worlds.chat import ChatWorld
from onefold.worlds.polymarket import Polymarket
from onefold.worlds.site import Request, Response
from tests.fast.apps.test_whales import ALL, ROW, settings, transactions, worker
from tests.fast.worker.stage import run_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def row(number: int, **change: Any) -> dict[str, Any]:
    return {**ROW, "transactionHash": f"0x{number:064x}", "timestamp": int(current().time()) - 60, **change}


def show(data: Polymarket, rows: Sequence[str]) -> None:
    """Show rows, each as JSON text, in the pages that are asked for."""

    def page(request: Request) -> Response:
        at = int(request.query["offset"])
        return Response(f"[{','.join(rows[at : at + int(request.query['limit'])])}]".encode())

    data.routes["GET", "/trades"] = page


def heard(chat: ChatWorld) -> list[str]:
    return sorted(transaction for _, transaction in transactions(chat).elements())


# ----- one bad row


@pytest.mark.parametrize(
    "damage",
    [
        '"bio": NaN',
        '"bio": 1, "bio": 2',
        f'"bio": {"9" * 500}',
        r'"bio": "\ud800"',
        '"price": 1.5',
        '"size": {}',
    ],
    ids=["NaN", "twice", "huge", "half", "price", "type"],
)
def test_one_bad_row_is_parked_alone_and_the_feed_goes_on(url, damage):
    bad = json.dumps({name: one for name, one in row(2).items() if name not in damage})
    with Polymarket() as data, ChatWorld() as chat:
        show(data, [json.dumps(row(1)), f"{bad[:-1]}, {damage}}}", json.dumps(row(3))])
        one = worker(settings(data, chat, ALL), url)
        run_until(one, lambda: transactions(chat).total() >= 2 and one.tallies["whales"].total("broken") > 0)

    assert heard(chat) == [row(1)["transactionHash"], row(3)["transactionHash"]]
    assert one.tallies["whales"].total("broken") == 1


# ----- a ledger of the previous version


def old_parts(shown: dict[str, Any], repeat: int = 0) -> tuple[str, ...]:
    """Name a fill as the previous version did: amounts as they were sent."""
    amounts = (format(Decimal(str(shown[name])), "f") for name in ("size", "price"))
    names = shown["transactionHash"].lower(), shown["proxyWallet"].lower(), shown["asset"], shown["side"]
    return (*names, *amounts, str(repeat))


def remember(url: str, *keys: Key) -> None:
    ledger = Ledger(url)
    try:
        for key in keys:
            assert ledger.call(key, lambda: None).state == "ran"
    finally:
        ledger.close()


SPELLINGS = [10, 10.0, "10", "10.0", "10.00"]


@pytest.mark.parametrize("now", SPELLINGS)
@pytest.mark.parametrize("then", [10, 10.0])
def test_nothing_that_the_previous_version_told_is_told_again(url, then, now):
    told = row(1, size=then, price=0.5)
    remember(url, Key("whales", *old_parts(told), "all"))
    with Polymarket() as data, ChatWorld() as chat:
        show(data, [json.dumps({**told, "size": now}), json.dumps(row(2, size=now))])
        one = worker(settings(data, chat, ALL), url)
        run_until(one, lambda: transactions(chat).total() >= 1 and one.ready)

    assert heard(chat) == [row(2)["transactionHash"]]


def test_a_text_that_the_previous_version_was_shown_is_found_too(url):
    told = row(1, size="10.000", price="0.50")
    remember(url, Key("whales", *old_parts(told), "all"))
    with Polymarket() as data, ChatWorld() as chat:
        show(data, [json.dumps(told), json.dumps(row(2))])
        one = worker(settings(data, chat, ALL), url)
        run_until(one, lambda: transactions(chat).total() >= 1 and one.ready)

    assert heard(chat) == [row(2)["transactionHash"]]


def test_of_fills_that_look_alike_only_those_are_told_that_the_previous_version_did_not_tell(url):
    alike = [row(1, size=10.0), row(1, size=10.0), row(1, size=10), row(1, size=10)]
    # It counted by words, so that 10.0 and 10 were counted apart.
    remember(url, *(Key("whales", *old_parts(alike[at], 0), "all") for at in (0, 2)))
    with Polymarket() as data, ChatWorld() as chat:
        show(data, [json.dumps(one) for one in alike])
        one = worker(settings(data, chat, ALL), url)
        run_until(one, lambda: transactions(chat).total() >= 2 and one.ready)

    assert transactions(chat).total() == 2


def test_a_name_that_did_not_change_is_looked_up_once():
    assert former_parts({**ROW, "size": 12.5, "price": 0.25}) == []
    assert fill_parts({**ROW, "size": 12.5, "price": 0.25}) == old_parts({**ROW, "size": 12.5, "price": 0.25})


def test_what_looks_alike_is_counted_by_its_amounts_and_not_by_its_words():
    rows = counted([{**ROW, "size": one} for one in SPELLINGS])

    assert [one["repeat"] for one in rows] == [0, 1, 2, 3, 4]
    assert len({fill_parts(one) for one in rows}) == 5
    assert len({fill_parts({**ROW, "size": one}) for one in SPELLINGS}) == 1


@pytest.mark.parametrize("now", SPELLINGS)
def test_what_the_words_of_the_seed_marked_with_the_previous_version_stays_marked(url, now):
    told = row(1, size=10.0)
    remember(url, Key(SCOPE, *old_parts(told)))
    trades = Trades(url)
    try:
        shown = {**told, "size": now}
        assert trades.is_trade_processed(shown)
        assert not trades.mark_trade_as_processed(shown)
        with trades.processing(shown) as claim:
            assert not claim.won
        assert trades.mark_trade_as_processed(row(2, size=now))
        assert not trades.mark_trade_as_processed(row(2, size=10))
    finally:
        trades.close()
