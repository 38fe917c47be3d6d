"""Copytrade with a ledger on a server, whose limits two workers share; the tests are the fast ones."""

from __future__ import annotations

import pytest

from tests.fast.apps.test_copytrade import (  # noqa: F401
    test_every_trade_is_copied_once_though_everything_misbehaves_and_the_worker_restarts,
)
from tests.fast.apps.test_copytrade_orders import (  # noqa: F401
    test_two_workers_that_hear_of_the_same_trades_copy_each_once,
    test_two_workers_together_never_exceed_the_orders_of_a_day,
)


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.store("postgresql")),
        pytest.param("mariadb", marks=[pytest.mark.store("mariadb"), pytest.mark.slow]),
    ]
)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))
