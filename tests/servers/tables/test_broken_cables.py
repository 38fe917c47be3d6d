"""The cable to PostgreSQL breaks while the table sink writes: nothing is lost or written twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.drive import Inline
from onefold.sinks.table import Table
from onefold.stores.memory import MemoryStore
from onefold.testing.proxy import Drop, Proxy, Reset, Swallow
from tests.databases import POSTGRESQL, Place, opened
from tests.fast.sinks.stage import PATIENT, records, run_until, settled, states, worker
from tests.fast.sinks.tables import ids, logged, make_tables, row
from tests.fast.sinks.test_table_beside import flats, sight


@pytest.fixture(params=[POSTGRESQL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    for one in opened(request, tmp_path):
        make_tables(one)
        yield one


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    """The cable between the sink and its database; a test must break it."""
    with Proxy.before(place.url) as proxy:
        yield proxy
        assert proxy.armed == 0, "nothing broke: the test shows nothing"


@pytest.mark.parametrize("mishap", [Drop(), Swallow(), Reset(1, "reply"), Reset(3, "request")])
@pytest.mark.parametrize("moment", [b"INSERT INTO", b"COMMIT"])
def test_a_cable_that_breaks_anywhere_in_the_transaction_doubles_and_loses_nothing(
    place, proxy, mishap, moment
):
    one = worker(records(30), Table(proxy.url, "flat_log", row), place.url)
    proxy.arm(mishap, when=moment)
    run_until(one, settled(place.store, 30))

    assert logged(place) == ids(30)
    assert states(place.store, 30) == {"done": 30}


@pytest.mark.parametrize("at", [900, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 200, 2000))])
def test_a_cable_that_is_cut_in_the_middle_of_a_batch_leaves_the_same_state(place, proxy, at, monkeypatch):
    monkeypatch.setattr("onefold.sinks.table.AWAY", 0.1)
    memory = MemoryStore()
    shown = [sight(n, f"f{n}", n, 1) for n in range(50)]
    one = worker(shown, flats(proxy.url), Inline(memory), terms=PATIENT)
    proxy.arm(Reset(at, "request"), when=b"INSERT")
    run_until(one, settled(memory, 50))

    assert states(memory, 50) == {"done": 50}
    assert len(place.run("SELECT * FROM flats")) == 50
