"""JSON of the outside is read strictly, and one bad value spoils no other."""

import json

import pytest

from onefold.core.wire import DEPTH, QUOTED, Unreadable, flaw, parse, parse_next, quoted


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "NaN stands in it, which is no JSON"),
        ('{"a": [1, -Infinity]}', "-Infinity stands in it, which is no JSON"),
        ('{"a": 1e400}', "the number 1e400 in it is too large"),
        ('{"a": ' + "9" * 401 + "}", "a number in it has 401 digits"),
        ('{"a": 0.' + "9" * 400 + "}", "a number in it has 402 digits"),
        ('{"a": {"b": 1, "b": 2}}', "its key 'b' stands twice"),
        (r'{"a": "\ud800"}', "a text in it holds half of a surrogate pair"),
        (r'{"\udfff": 1}', "a text in it holds half of a surrogate pair"),
        (nested(DEPTH + 1), f"it is nested deeper than {DEPTH} levels"),
        (nested(DEPTH), None),
        ('{"a": [1, 2.5, null, true, "ü😀"], "b": ' + "9" * 78 + "}", None),
    ],
)
def test_a_flaw_is_found_wherever_it_stands(text, reason):
    assert flaw(parse(text)) == reason


def test_a_flaw_in_one_row_leaves_the_others_whole():
    rows = parse('[{"n": 1}, {"n": NaN}, {"n": 3}]')

    assert [flaw(row) for row in rows] == [None, "NaN stands in it, which is no JSON", None]


@pytest.mark.parametrize("text", ["", "<html>oops", '{"a": 1', "[1,]", nested(100_000)[:100_000], '"\n"'])
def test_what_is_no_json_is_refused_with_a_sentence(text):
    with pytest.raises(Unreadable, match=r"it is (no JSON|nested without end)"):
        parse(text)


def test_what_is_broken_is_quoted_cut_and_always_the_same():
    broken = parse(r'[{"a": NaN, "b": "\ud800", "c": "' + "x" * 5000 + '"}]')[0]

    assert quoted(broken) == quoted(broken)
    assert quoted(broken).startswith('{"a": "<NaN stands in it, which is no JSON>", "b": "\\ud800"')
    assert len(quoted(broken)) == QUOTED
    assert quoted("as it is") == "as it is"
    assert "…" in quoted(json.loads(nested(DEPTH + 5)))


def test_values_that_follow_each_other_are_read_one_by_one():
    text = '{"a": 1} [NaN]'
    first, end = parse_next(text, 0)
    second, last = parse_next(text, end + 1)

    assert (first, end, last) == ({"a": 1}, 8, len(text))
    assert flaw(second) == "NaN stands in it, which is no JSON"
    with pytest.raises(Unreadable, match="nested without end"):
        parse_next("[" * 100_000, 0)
    with pytest.raises(Unreadable, match="it is no JSON"):
        parse_next('{"a": 1} oops', 9)
