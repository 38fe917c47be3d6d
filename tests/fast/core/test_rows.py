"""Rows become records: named, placed in time by one unit, and set apart where they are none."""

import json
from datetime import UTC, datetime

import pytest

from onefold.core.record import Broken, Record
from onefold.core.rows import STUMBLES, Shape, found, moment, pick, records, rows_of, spelled, unsound
from onefold.core.wire import Unreadable, parse

NOW = 1_700_000_000.0
SHAPE = Shape(id="id", at="timestamp")


def stumble(row):
    return row["missing"]


def test_rows_keep_their_order_and_their_text():
    rows = [{"id": 2, "timestamp": 1_699_999_999}, {"id": "b", "timestamp": "1699999998.5", "x": [1]}]

    good, broken = records(rows, SHAPE, NOW)

    assert [(one.id, one.at, one.body) for one in good] == [
        ("2", 1_699_999_999, rows[0]),
        ("b", 1_699_999_998.5, rows[1]),
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('"text"', "it is no object, but str"),
        ("null", "it is no object, but NoneType"),
        ('{"timestamp": 1699999999}', "it has no id, but null"),
        ('{"id": "", "timestamp": 1699999999}', "it has no id, but "),
        ('{"id": true, "timestamp": 1699999999}', "it has no id, but true"),
        ('{"id": {"a": 1}, "timestamp": 1699999999}', 'it has no id, but {"a": 1}'),
        ('{"id": "a"}', "it has no order value, but null"),
        ('{"id": "a", "timestamp": false}', "it has no order value, but false"),
        ('{"id": "a", "timestamp": "soon"}', "it has no order value, but soon"),
        ('{"id": "a", "timestamp": "nan"}', "it has no order value, but nan"),
        ('{"id": "a", "timestamp": NaN}', "NaN stands in it, which is no JSON"),
        ('{"id": "a", "id": "b", "timestamp": 1699999999}', "its key 'id' stands twice"),
        ('{"id": "a", "timestamp": 1700007200}', "its time is 2023-11-15T00:13:20+00:00"),
        ('{"id": "a", "timestamp": 0}', "its time is 1970-01-01T00:00:00+00:00"),
        ('{"id": "a", "timestamp": 1e18}', "its time is 1000000000000000000"),
    ],
)
def test_a_row_that_is_no_record_is_set_apart_with_the_reason(row, reason):
    good, broken = records([{"id": "good", "timestamp": NOW}, parse(row)], SHAPE, NOW)

    assert [one.id for one in good] == ["good"]
    assert [one.reason for one in broken] == [reason]


def test_a_function_that_stumbles_over_a_row_sets_it_apart():
    good, broken = records([{"id": "a", "timestamp": 1}], Shape(stumble, "timestamp", None), NOW)

    assert good == []
    assert broken == [Broken('{"id": "a", "timestamp": 1}', "KeyError: 'missing'")]


@pytest.mark.parametrize(("at", "unit"), [(1_700_000_000_000, "s"), (1_700_000_000, "ms")])
def test_a_page_in_another_unit_is_refused_as_a_whole(at, unit):
    with pytest.raises(Unreadable, match=f"all its 2 rows lie outside of our time.*unit='{unit}'"):
        records([{"id": "a", "timestamp": at}] * 2, Shape("id", "timestamp", unit), NOW)


def test_an_order_that_is_no_time_may_be_anything():
    good, _ = records(
        [{"id": "a", "block": 0}, {"id": "b", "block": 10**12}], Shape("id", "block", None), NOW
    )

    assert [one.at for one in good] == [0, 10**12]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1_700_000_000, "s", 1_700_000_000),
        ("1700000000123", "ms", 1_700_000_000.123),
        (1_700_000_000_500_000, "us", 1_700_000_000.5),
        (1_700_000_000_500_000_000, "ns", 1_700_000_000.5),
        ("2023-11-14T22:13:20.5Z", "iso", 1_700_000_000.5),
        ("2023-11-14T23:13:20+01:00", "iso", 1_700_000_000),
        ("2023-11-14 22:13:20", "iso", 1_700_000_000),
        (-5, None, -5),
        ("-5", None, -5),
    ],
)
def test_units_become_seconds(value, unit, expected):
    assert moment(value, unit) == expected


@pytest.mark.parametrize(("value", "reason"), [(5, "no time, but 5"), ("soon", "no ISO 8601: soon")])
def test_a_time_that_is_none_is_said(value, reason):
    with pytest.raises(Exception, match=reason):
        moment(value, "iso")


@pytest.mark.parametrize(
    ("at", "unit", "expected"),
    [
        (1_700_000_000.9, "s", "1700000000"),
        (1_700_000_000.1239, "ms", "1700000000123"),
        (1_700_000_000.9, "iso", "2023-11-14T22:13:20Z"),
        (17.0, None, "17"),
    ],
)
def test_a_place_is_written_as_the_feed_does_and_rounded_down(at, unit, expected):
    assert spelled(at, unit) == expected


def test_fields_are_picked_by_name_by_path_and_by_function():
    row = {"a": {"b": [1]}, "c": 2}

    assert pick(row, "c") == 2
    assert pick(row, "a.b") == [1]
    assert pick(row, "c.d") is None
    assert pick(row, lambda row: row["c"] + 1) == 3


@pytest.mark.parametrize(
    ("body", "where", "rows"),
    [
        ([1], None, [1]),
        ({"data": [1]}, "data", [1]),
        ({"a": {"b": []}}, "a.b", []),
        ({}, lambda body: [], []),
    ],
)
def test_rows_are_found(body, where, rows):
    assert rows_of(body, where) == rows


@pytest.mark.parametrize(
    ("body", "where", "reason"),
    [
        ({"error": "later"}, None, 'no list of rows, but {"error": "later"}'),
        ({"error": "later"}, "data", "no list of rows under 'data', but"),
        ({"error": "later"}, stumble, r"its rows cannot be found \(KeyError\('missing'\)\) in"),
        (None, lambda body: None, "no list of rows, but null"),
    ],
)
def test_an_error_that_came_as_a_success_is_refused(body, where, reason):
    with pytest.raises(Unreadable, match=reason):
        rows_of(body, where)


def test_a_time_without_a_zone_is_universal():
    assert moment("2023-11-14T22:13:20", "iso") == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp()


# ----- functions of the caller


FLAWED = ['{"n": NaN}', '{"n": 1, "n": 2}', '{"n": ' + "9" * 500 + "}", r'{"n": "\ud800"}', '{"n": 1e999}']


def renumbered(rows):
    """Do what a function of the caller's may do with every row."""
    return [{**row, "text": json.dumps(row, allow_nan=False).encode().decode()} for row in rows]


@pytest.mark.parametrize("wrong", FLAWED)
@pytest.mark.parametrize("where", ["{}", '{{"data": {}}}'], ids=["list", "object"])
def test_a_function_never_sees_a_flawed_row_and_that_row_is_set_apart_alone(wrong, where):
    text = '[{"id": 1, "timestamp": 1699999999}, ' + wrong + ', {"id": 2, "timestamp": 1699999999}]'
    body = parse(where.format(text))

    rows = rows_of(body, lambda body: renumbered(body if isinstance(body, list) else body["data"]))
    good, broken = records(rows, SHAPE, NOW)

    assert [one.id for one in good] == ["1", "2"]
    assert len(rows) == 3
    assert len(broken) == 1


def test_a_function_that_finds_the_next_page_never_sees_a_flawed_row():
    body = parse('{"data": [{"id": 1}, {"id": NaN}], "next": 7}')

    assert found(body, lambda body: body["data"][-1]["id"] + 1, "the next page") == 2
    assert found(body, "next", "the next page") == 7


@pytest.mark.parametrize(
    ("odd", "number"),
    [
        *((odd, 2) for odd in ("null", "17", "[]", '"text"', '{"timestamp": 1699999999}')),
        ("null", 7),
        ("{}", 1),
    ],
)
def test_a_row_over_which_a_function_stumbles_is_set_apart_alone(odd, number):
    sound = [f'{{"id": {name}, "timestamp": 1699999999}}' for name in range(number - 1)]
    body = parse(f'{{"data": [{",".join([*sound[:2], odd, *sound[2:]])}]}}')

    rows = rows_of(body, lambda body: [{**row, "name": row["id"]} for row in body["data"]])
    good, broken = records(rows, Shape("name", "timestamp"), NOW)

    assert [one.id for one in good] == [str(name) for name in range(number - 1)]
    assert len(broken) == 1


def refusing(body):
    raise Unreadable("the whole page is an old one")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ([{"id": 1}, {"id": 2}], refusing),
        ([{"id": 1}, {"id": 2}], stumble),
        ([{"id": 1}, {"id": 2}], lambda body: [1 / (len(body) < 2)]),
        ([{}] * (STUMBLES + 1), lambda body: [row["id"] for row in body]),
        ([{"id": 1}, {}, {"id": 3}], lambda body: [row["id"] / (len(body) != 2) for row in body]),
    ],
    ids=["refuses", "always", "together", "too many", "without it too"],
)
def test_a_page_over_which_a_function_stumbles_as_a_whole_is_refused(body, where):
    with pytest.raises(Unreadable, match="its rows cannot be found"):
        rows_of(body, where)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("a", {"n": 1.5}, 1), None),
        (Record("", {}, 1), "it has no id"),
        (Record("\ud800", {}, 1), "it has no id"),
        (Record(7, {}, 1), "it has no id"),  # type: ignore[arg-type]
        (Record("a", {}, float("nan")), "it has no order value"),
        (Record("a", {}, True), "it has no order value"),
        (Record("a", {}, "1"), "it has no order value"),  # type: ignore[arg-type]
        (Record("a", {"n": float("inf")}, 1), "inf stands in it"),
        (Record("a", ["\ud800"], 1), "half of a surrogate pair"),
    ],
)
def test_a_record_that_no_store_could_keep_is_told(record, reason):
    said = unsound(record)

    assert said is None if reason is None else said and reason in said
