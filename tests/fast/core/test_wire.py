"""JSON of the outside is read strictly, and one bad value spoils no other."""

import json

import pytest

from onefold.core.wire import DEPTH, QUOTED, Unreadable, flaw, parse, parse_next, quoted, sifted


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


def test_a_number_that_json_does_not_know_is_a_flaw_however_it_was_read():
    assert flaw(json.loads('{"a": [NaN]}')) == "nan stands in it, which is no JSON"
    assert flaw({"a": float("-inf")}) == "-inf stands in it, which is no JSON"


@pytest.mark.parametrize(
    ("text", "left", "taken"),
    [
        ('[{"n": 1}, {"n": NaN}, {"n": 3}]', [{"n": 1}, {"n": 3}], 1),
        ('[{"n": 1}, {"n": 1, "n": 2}, NaN, "text"]', [{"n": 1}, "text"], 2),
        ('[{"n": 1, "n": 2}]', [], 1),
        ('{"page": {"data": [[1, 2], [1, NaN]]}, "n": 2}', {"page": {"data": [[1, 2]]}, "n": 2}, 1),
        ('[{"n": 1}]', [{"n": 1}], 0),
        ('"text"', "text", 0),
    ],
)
def test_flawed_rows_are_taken_out_of_a_body_wherever_its_list_stands(text, left, taken):
    sound, apart = sifted(parse(text))

    assert sound == left
    assert len(apart) == taken
    assert all(flaw(one) for one in apart)


def test_a_column_of_numbers_keeps_every_place():
    sound, taken = sifted(parse('{"t": [1, 2], "price": [0.5, NaN]}'))

    assert [len(sound["t"]), len(sound["price"]), taken] == [2, 2, []]


def test_a_row_that_lost_a_part_is_flawed_itself():
    # Rows by name, each with a list inside: what was taken out of that list is missing in the row.
    sound, taken = sifted(parse('{"rows": {"a": {"legs": [{"n": NaN}, {"n": 2}]}, "b": {"legs": []}}}'))

    assert len(taken) == 1
    assert flaw(sound["rows"]["a"]) == "a list in it has an element that is not to be trusted"
    assert flaw(sound["rows"]["b"]) is None


def test_what_is_nested_without_end_is_left_as_it_is():
    deep = parse('{"a":' * (DEPTH + 2) + '[{"n": NaN}]' + "}" * (DEPTH + 2))

    sound, taken = sifted(deep)

    assert taken == []
    assert flaw(sound) == f"it is nested deeper than {DEPTH} levels"


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
