"""Two stores, two colours: every scenario of this folder runs on all four."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onefold.core.ports import Store
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from tests.fast.ledger.doors import Awaited, Blocking, Time


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.store("memory")),
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> Iterator[Store]:
    made: Store = (
        MemoryStore(time) if request.param == "memory" else SqliteStore(tmp_path / "o.db", clock=time)
    )
    yield made
    made.close()


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "awaited"])
def door(request: pytest.FixtureRequest, store: Store) -> Iterator[Any]:
    made = request.param(store)
    yield made
    made.close()
