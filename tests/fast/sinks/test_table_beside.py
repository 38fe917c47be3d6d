"""The table sink beside the ledger: idempotent by a version; its names, its values, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from onefold.core.errors import Misconfigured, Rejected
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.table import Table, bound, statement
from onefold.stores.memory import MemoryStore
from onefold.tables.times import OURS
from tests.fast.sinks.stage import Won, put_one, records, run_until, settled, states, worker
from tests.fast.sinks.tables import ids, log, logged, row

# ----- idempotent


def flats(url: str, **more: Any) -> Table:
    def make(record: Record) -> dict[str, Any]:
        return {"id": record.body["flat"], "price": record.body["price"], "seen": record.body["seen"]}

    return Table(url, "flats", make, key=["id"], version="seen", effect="idempotent", **more)


def sight(number: int, flat: str, price: int, seen: int) -> Record:
    return Record(f"r{number}", {"flat": flat, "price": price, "seen": seen}, number)


def test_an_older_row_never_replaces_a_newer_one_in_whatever_order_they_come(place):
    memory = MemoryStore()
    shown = [sight(0, "a", 100, 1), sight(1, "a", 300, 3), sight(2, "a", 200, 2), sight(3, "b", 5, 1)]
    for turn in (shown, shown[::-1]):
        run_until(worker(turn, flats(place.url), Inline(memory)), settled(memory, 4))
        memory = MemoryStore()

    assert place.run("SELECT id, price, seen FROM flats ORDER BY id") == [("a", 300, 3), ("b", 5, 1)]


def test_half_a_batch_that_cannot_be_written_does_not_hold_up_the_other_half(place):
    memory = MemoryStore()
    shown = [sight(n, f"f{n}", None if n % 2 else n, 1) for n in range(20)]  # type: ignore[arg-type]
    run_until(worker(shown, flats(place.url), Inline(memory)), settled(memory, 20))

    assert states(memory, 20) == {"done": 10, "failed": 10}
    assert len(place.run("SELECT * FROM flats")) == 10


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
    sink = flats(place.url)

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

    assert bound("sqlite", moment) == "2026-02-22T10:00:00.000000Z"
    assert OURS.pattern.fullmatch(bound("sqlite", moment))
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
    if url.startswith("mariadb:"):
        pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")
    sink = Table(url, "flats", row, key=["id"], version="seen", effect="idempotent")
    answer = put_one(sink, sight(1, "a", 1, 1))

    assert isinstance(answer, Misconfigured)
    assert says in str(answer)
