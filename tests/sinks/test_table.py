"""The table sink, joined to the ledger or idempotent beside it; what happened is read from the table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import pytest

from onefold import Ledger
from onefold.core.errors import Later
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.table import Table
from onefold.stores.memory import MemoryStore
from onefold.testing.proxy import Drop, Proxy, Reset, Swallow
from tests.databases import Place
from tests.sinks.stage import PATIENT, QUICK, entry, records, run_until, settled, states, worker
from tests.sinks.tables import LOG, ids, log, logged, row
from tests.waiting import PATIENCE

# ----- joined


def test_rows_and_marks_are_committed_together_each_once(place):
    shown = [*records(250), *records(100)]
    run_until(worker(shown, log(place), place.url), settled(place.store, 250))

    assert logged(place) == ids(250)
    assert states(place.store, 250) == {"done": 250}
    assert entry(place.store, "r7").body == '{"rows":1}'


def test_several_workers_write_every_row_once(place):
    run_workers = [worker(records(200), log(place), place.url) for _ in range(3)]
    threads = [
        threading.Thread(target=run_until, args=(one, settled(place.store, 200))) for one in run_workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert logged(place) == ids(200)


def test_a_poison_row_is_split_out_and_parked_with_its_error_and_its_neighbours_go_through(place):

    def make(record: Record) -> dict[str, Any]:
        return {"id": record.id, "price": None if record.id == "r3" else 1}

    run_until(worker(records(50), log(place, make), place.url), settled(place.store, 50))

    assert logged(place) == sorted(set(ids(50)) - {"r3"})
    poison = entry(place.store, "r3")
    assert (poison.why, poison.attempt) == ("failed", QUICK.attempts)
    assert "price" in poison.body


def test_a_row_that_fails_at_first_is_tried_again_from_its_entry(place):
    failures = {"r3": 2}

    def make(record: Record) -> dict[str, Any]:
        if failures.get(record.id, 0):
            failures[record.id] -= 1
            raise ValueError("not yet")
        return row(record)

    one = worker(records(10), log(place, make), place.url, terms=PATIENT)
    run_until(one, settled(place.store, 10))

    assert logged(place) == ids(10)
    # The first failure was of the whole page, which was then split: it counts for nobody.
    assert entry(place.store, "r3").attempt == 2


def test_a_row_that_is_rejected_is_parked_at_once(place):

    def make(record: Record) -> dict[str, Any]:
        return {"id": record.id, "price": 1, **({"colour": "red"} if record.id == "r3" else {})}

    run_until(worker(records(10), log(place, make), place.url), settled(place.store, 10))

    assert states(place.store, 10) == {"done": 9, "failed": 1}
    assert entry(place.store, "r3").attempt == 1
    assert "no column 'colour'" in entry(place.store, "r3").body


def test_what_is_told_to_come_later_uses_up_no_attempt(place):
    told = iter(range(5))

    def make(record: Record) -> dict[str, Any]:
        if next(told, None) is not None:
            raise Later("not final yet", 0.05)
        return row(record)

    run_until(worker(records(1), log(place, make), place.url), settled(place.store, 1))

    assert states(place.store, 1) == {"done": 1}
    assert entry(place.store, "r0").attempt == 1


def test_a_record_may_be_several_rows_or_none(place):

    def make(record: Record) -> Any:
        return [{"id": f"{record.id}-{n}", "price": n} for n in range(3)] if record.id == "r0" else None

    run_until(worker(records(2), log(place, make), place.url), settled(place.store, 2))

    assert logged(place) == ["r0-0", "r0-1", "r0-2"]
    assert entry(place.store, "r1").body == '{"rows":0}'


def test_a_competitor_that_holds_the_key_is_waited_for_and_then_left_alone(place):
    """Another transaction has claimed a key and not committed: we hear busy, and act once it went back."""
    other = Table(place.url, "flat_log", row, patience=0.1)
    sink = log(place, patience=0.1)
    busy = threading.Event()
    let_go = threading.Event()

    def hold() -> None:
        class Gone(Exception):
            pass

        with suppress(Gone), other.transaction() as connection:
            Ledger.on(connection).claim(Key("stage", "r0"))
            busy.set()
            let_go.wait(PATIENCE)
            raise Gone

    holder = threading.Thread(target=hold)
    holder.start()
    assert busy.wait(PATIENCE)
    one = worker(records(1), sink, place.url, terms=Terms(lease=60, backoff=(0.05, 0.2)))

    def condition() -> bool:
        if one.tallies["stage"].total("busy") or one.tallies["stage"].errors:
            let_go.set()
        return entry(place.store, "r0") is not None and settled(place.store, 1)()

    run_until(one, condition)
    holder.join(PATIENCE)
    anyio.run(other.aclose)

    assert logged(place) == ["r0"]
    assert entry(place.store, "r0").attempt == 1


def test_a_commit_whose_answer_is_lost_does_not_write_the_row_again(place):

    class Unsure(Table):
        lost = 0

        @contextmanager
        def transaction(self) -> Iterator[Any]:
            with super().transaction() as connection:
                yield connection
            if self.lost < 2 and logged(place):
                self.lost += 1
                raise ConnectionError("the answer to COMMIT was lost")

    sink = Unsure(place.url, "flat_log", row)
    run_until(worker(records(20), sink, place.url), settled(place.store, 20))

    assert sink.lost == 2
    assert logged(place) == ids(20)


def test_a_killed_worker_leaves_neither_row_nor_mark_and_the_next_one_acts(place):
    program = f"""
import sys
from onefold.core.record import Record
from onefold.sinks.table import Table
from tests.sinks.stage import records, worker

class Dies(Table):
    def write(self, connection, work):
        receipts = super().write(connection, work)
        print("written", flush=True)
        sys.stdin.read()
        return receipts

worker(records(5), Dies({place.url!r}, "flat_log", lambda r: {{"id": r.id, "price": 1}}), {place.url!r}).run()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == "written\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait(PATIENCE)

    assert logged(place) == []
    assert states(place.store, 5) == {"absent": 5}
    run_until(worker(records(5), log(place), place.url), settled(place.store, 5))
    assert logged(place) == ids(5)


def test_a_ledger_in_another_database_is_refused_and_nothing_is_written(place):
    memory = MemoryStore()
    one = worker(records(5), log(place), Inline(memory))
    run_until(one, lambda: "feed" in one.tallies["stage"].errors)

    assert "another database than the ledger" in one.tallies["stage"].errors["feed"]
    assert logged(place) == []


def test_a_table_that_is_not_there_parks_nothing(place):
    one = worker(records(5), Table(place.url, "nowhere", row), place.url)
    run_until(one, lambda: "feed" in one.tallies["stage"].errors)

    assert "there is no table nowhere" in one.tallies["stage"].errors["feed"]
    assert states(place.store, 5) == {"absent": 5}


@pytest.mark.store("postgresql")
@pytest.mark.parametrize("mishap", [Drop(), Swallow(), Reset(1, "reply"), Reset(3, "request")])
@pytest.mark.parametrize("moment", [b"INSERT INTO", b"COMMIT"])
def test_a_cable_that_breaks_anywhere_in_the_transaction_doubles_and_loses_nothing(
    mishap, moment, postgresql_url
):
    place = Place(postgresql_url)
    place.run(LOG)
    try:
        with Proxy.before(postgresql_url) as proxy:
            sink = Table(proxy.url, "flat_log", row)
            one = worker(records(30), sink, place.url)
            proxy.arm(mishap, when=moment)
            run_until(one, settled(place.store, 30))
            assert proxy.armed == 0, "nothing broke: the test shows nothing"

        assert logged(place) == ids(30)
        assert states(place.store, 30) == {"done": 30}
    finally:
        place.close()
