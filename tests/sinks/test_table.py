"""The table sink, joined to the ledger or idempotent beside it; what happened is read from the table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from onefold import Ledger
from onefold.core.errors import Later, Misconfigured, Rejected
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.drive import Inline
from onefold.sinks.table import Table, bound, statement
from onefold.stores.memory import MemoryStore
from onefold.testing.proxy import Drop, Proxy, Reset, Swallow
from tests.databases import Place
from tests.sinks.stage import PATIENT, QUICK, Won, entry, put_one, records, run_until, settled, states, worker

FLATS = "CREATE TABLE flats (id VARCHAR(80) PRIMARY KEY, price INT NOT NULL, seen INT)"
LOG = "CREATE TABLE flat_log (id VARCHAR(80), price INT NOT NULL)"


@pytest.fixture(autouse=True)
def _tables(request: pytest.FixtureRequest) -> None:
    if "place" in request.fixturenames:
        place: Place = request.getfixturevalue("place")
        place.run(FLATS)
        place.run(LOG)


def row(record: Record) -> dict[str, Any]:
    return {"id": record.id, "price": record.body["n"]}


def log(place: Place, make: Any = row, **more: Any) -> Table:
    """A sink that only adds: whatever is written twice shows."""
    return Table(place.url, "flat_log", make, **more)


def logged(place: Place) -> list[str]:
    return sorted(name for (name,) in place.run("SELECT id FROM flat_log"))


def ids(count: int) -> list[str]:
    return sorted(f"r{n}" for n in range(count))


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
        thread.join(60)

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
            let_go.wait(30)
            raise Gone

    holder = threading.Thread(target=hold)
    holder.start()
    busy.wait(30)
    one = worker(records(1), sink, place.url, terms=Terms(lease=2, backoff=(0.05, 0.2)))

    def condition() -> bool:
        if one.tallies["stage"].total("busy") or one.tallies["stage"].errors:
            let_go.set()
        return entry(place.store, "r0") is not None and settled(place.store, 1)()

    run_until(one, condition)
    holder.join(30)
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
        child.wait(30)

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


# ----- idempotent


def flats(place: Place, **more: Any) -> Table:
    def make(record: Record) -> dict[str, Any]:
        return {"id": record.body["flat"], "price": record.body["price"], "seen": record.body["seen"]}

    return Table(place.url, "flats", make, key=["id"], version="seen", effect="idempotent", **more)


def sight(number: int, flat: str, price: int, seen: int) -> Record:
    return Record(f"r{number}", {"flat": flat, "price": price, "seen": seen}, number)


def test_an_older_row_never_replaces_a_newer_one_in_whatever_order_they_come(place):
    memory = MemoryStore()
    shown = [sight(0, "a", 100, 1), sight(1, "a", 300, 3), sight(2, "a", 200, 2), sight(3, "b", 5, 1)]
    for turn in (shown, shown[::-1]):
        run_until(worker(turn, flats(place), Inline(memory)), settled(memory, 4))
        memory = MemoryStore()

    assert place.run("SELECT id, price, seen FROM flats ORDER BY id") == [("a", 300, 3), ("b", 5, 1)]


def test_half_a_batch_that_cannot_be_written_does_not_hold_up_the_other_half(place):
    memory = MemoryStore()
    shown = [sight(n, f"f{n}", None if n % 2 else n, 1) for n in range(20)]  # type: ignore[arg-type]
    run_until(worker(shown, flats(place), Inline(memory)), settled(memory, 20))

    assert states(memory, 20) == {"done": 10, "failed": 10}
    assert len(place.run("SELECT * FROM flats")) == 10


@pytest.mark.store("postgresql")
@pytest.mark.parametrize("at", [1, 200, 900, 2000])
def test_a_cable_that_is_cut_in_the_middle_of_a_batch_leaves_the_same_state(at, postgresql_url):
    place, memory = Place(postgresql_url), MemoryStore()
    place.run(FLATS)
    try:
        with Proxy.before(postgresql_url) as proxy:
            shown = [sight(n, f"f{n}", n, 1) for n in range(50)]
            proxy.arm(Reset(at, "request"), when=b"INSERT")
            sink = Table(
                proxy.url,
                "flats",
                lambda r: {"id": r.body["flat"], "price": r.body["price"], "seen": r.body["seen"]},
                key=["id"],
                version="seen",
                effect="idempotent",
            )
            one = worker(shown, sink, Inline(memory), terms=PATIENT)
            run_until(one, settled(memory, 50))
            assert proxy.armed == 0, "nothing broke: the test shows nothing"

        assert states(memory, 50) == {"done": 50}
        assert len(place.run("SELECT * FROM flats")) == 50
    finally:
        place.close()


# ----- names, values, settings


@pytest.mark.parametrize(
    "name", ['id"; DROP TABLE flats; --', "", "a b", "ä", "id`", "1st", "x" * 64, None, 7]
)
@pytest.mark.parametrize("place_of_it", ["table", "key", "version"])
def test_a_name_that_is_not_plain_is_refused(name, place_of_it):
    settings: dict[str, Any] = {"table": "flats", "key": ["id"], "version": "seen"}
    settings[place_of_it] = [name] if place_of_it == "key" else name
    if name is None and place_of_it == "version":
        return
    with pytest.raises((Misconfigured, AttributeError)):
        Table("sqlite:///x.db", row=row, **settings)


def test_values_are_bound_whatever_they_hold(place):
    hostile = "'); DROP TABLE flats; -- \" ` ? %s \\"
    sink = Table(place.url, "flats", lambda r: {"id": hostile, "price": 1}, key=["id"])
    run_until(worker(records(1), sink, place.url), settled(place.store, 1))

    assert place.run("SELECT id FROM flats") == [(hostile,)]


def test_a_row_without_its_key_is_rejected(place):
    sink = flats(place)

    assert type(put_one(sink, Record("r1", {"flat": None, "price": 1, "seen": 1}, 1))) is Rejected


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"effect": "one-shot"}, "joined or idempotent"),
        ({"effect": "idempotent"}, "needs key= and version="),
        ({"effect": "idempotent", "key": ["id"]}, "needs key= and version="),
        ({"url": "redis://host"}, "names no database"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_when_it_is_made(more, says):
    with pytest.raises(Misconfigured, match=says):
        Table(**{"url": "sqlite:///x.db", "table": "flats", "row": row, **more})


def test_a_database_file_that_is_not_there_is_not_made(tmp_path):
    sink = Table(
        f"sqlite:///{tmp_path}/none.db", "flats", row, key=["id"], version="seen", effect="idempotent"
    )
    answer = put_one(sink, sight(1, "a", 1, 1))

    assert isinstance(answer, Misconfigured)
    assert not (tmp_path / "none.db").exists()


def test_times_are_written_in_one_form_and_only_with_a_zone():
    moment = datetime(2026, 2, 22, 10, tzinfo=UTC)

    assert bound("sqlite", moment) == "2026-02-22T10:00:00.000000+00:00"
    assert bound("postgresql", moment) == moment
    assert bound("mariadb", moment) == datetime(2026, 2, 22, 10)  # noqa: DTZ001  (it has none)
    assert bound("sqlite", {"a": [1]}) == '{"a": [1]}'
    with pytest.raises(Rejected, match="no time zone"):
        bound("sqlite", datetime(2026, 2, 22, 10))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "version", "says"),
    [
        ("sqlite", None, 'DO UPDATE SET "price" = excluded."price"'),
        ("postgresql", "seen", 'WHERE onefold_old."seen" IS NULL OR onefold_old."seen" < excluded."seen"'),
        ("mariadb", None, "ON DUPLICATE KEY UPDATE `price` = VALUES(`price`)"),
    ],
)
def test_a_row_is_put_in_the_place_of_the_one_with_its_key(kind, version, says):
    columns = ["id", "price", *(["seen"] if version else [])]

    assert says in statement(kind, "flats", columns, ["id"], version)


def test_on_mariadb_the_version_is_changed_last():
    sql = statement("mariadb", "flats", ["id", "seen", "price"], ["id"], "seen")

    assert sql.index("`price` = IF") < sql.index("`seen` = IF")


def test_a_claim_for_nobody_is_not_needed_to_write(place):
    """The sink itself claims nothing: it is the delivery that does."""
    sink = log(place)
    with sink.transaction() as connection:
        receipts = sink.write(connection, [(Won(Key("stage", "x")), record) for record in records(2)])
    anyio.run(sink.aclose)

    assert receipts == [{"rows": 1}] * 2
    assert logged(place) == ids(2)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mariadb://host", "names no database"),
        ("mariadb://host/shop?sslmode=required", "option 'sslmode'"),
        ("sqlite:shop.db", "names no file"),
    ],
)
def test_an_address_that_cannot_be_kept_to_is_refused_before_anything_is_sent(url, says):
    sink = Table(url, "flats", row, key=["id"], version="seen", effect="idempotent")
    answer = put_one(sink, sight(1, "a", 1, 1))

    assert isinstance(answer, Misconfigured)
    assert says in str(answer)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody:hunter2@127.0.0.1:1/shop",
        "postgresql://nobody:hunter2@127.0.0.1:x/shop?no=such",
        "mariadb://nobody:hunter2@127.0.0.1:1/shop",
    ],
)
def test_a_database_that_is_not_reached_is_left_alone_for_a_while_and_no_password_is_said(url):
    sink = Table(url, "flats", row, key=["id"], version="seen", effect="idempotent")
    answer = put_one(sink, sight(1, "a", 1, 1))

    assert isinstance(answer, Later)
    assert "was not reached" in str(answer)
    assert "hunter2" not in str(answer) + repr(answer.__cause__)
