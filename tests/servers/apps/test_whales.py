"""Whales with a ledger on a server, and the collections of its seed in MongoDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onefold.apps.whales.seed import Trades, move_in
from tests.fast.apps.test_whales import (  # noqa: F401
    test_every_large_trade_is_told_to_every_subscriber_once,
)
from tests.fast.apps.test_whales_seed import marked, row


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.store("postgresql")),
        pytest.param("mongodb", marks=[pytest.mark.store("mongodb"), pytest.mark.slow]),
    ]
)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def seed(mongodb_url: str) -> Iterator[Any]:
    """Return the database of the seed."""
    import pymongo  # it comes with the test servers, as the server does

    client: Any = pymongo.MongoClient(mongodb_url)
    with closing(client):
        yield client.get_default_database()


@pytest.mark.store("mongodb")
def test_the_collections_of_the_seed_are_read_from_mongodb(seed: Any, tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'onefold.db'}"
    seed.processedTrades.insert_many([marked("0xAB"), marked("0xCD")])
    seed.whaleAlertCursors.insert_one(
        {"_id": "whale_worker_global", "lastProcessedTimestamp": 1_700_000_000, "lastProcessedTxhash": "0xAB"}
    )

    became = move_in(seed.processedTrades.find(), seed.whaleAlertCursors.find(), url)

    assert became == {"done": 2, "cursor": 1}
    with closing(Trades(url)) as trades:
        assert trades.is_trade_processed(row(transactionHash="0xcd"))
