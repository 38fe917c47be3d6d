"""Texts with tags: escaped, measured, cut and split, and always readable by the stand-in of the service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.sinks.markup import cut, escaped, length, split
from onefold.worlds.chat import _Reader, _wrong_markup

PIECES = st.recursive(
    st.text(st.characters(codec="utf-8"), max_size=30).map(escaped),
    lambda inner: st.tuples(st.sampled_from(["b", "i", "code"]), st.lists(inner, max_size=4)).map(
        lambda drawn: f"<{drawn[0]}>{''.join(drawn[1])}</{drawn[0]}>"
    ),
    max_leaves=20,
)


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_can_be_escaped_and_is_read_back(text):
    assert _wrong_markup(escaped(text)) == ""
    assert _Reader.visible(escaped(text)).replace("\r", "\n") == text.replace("\r", "\n")


@given(PIECES, st.integers(2, 60))
def test_what_was_cut_fits_and_can_be_read(html, limit):
    short = cut(html, limit)

    assert length(short) <= limit
    assert _wrong_markup(short) == ""


@given(PIECES, st.integers(2, 60))
def test_the_parts_of_a_split_text_fit_can_be_read_and_lose_nothing(html, limit):
    parts = split(html, limit)

    assert all(0 < length(part) <= limit for part in parts)
    assert [_wrong_markup(part) for part in parts] == [""] * len(parts)
    assert "".join(map(_Reader.visible, parts)) == _Reader.visible(html)


@pytest.mark.parametrize(
    ("html", "units"),
    [("abc", 3), ("<b>abc</b>", 3), ("&lt;&amp;", 2), ("👍", 2), ("é", 1), ("a < b", 5), ("&#128077;", 2)],
)
def test_a_text_is_as_long_as_it_is_shown(html, units):
    assert length(html) == units


@pytest.mark.parametrize(
    ("html", "limit", "short"),
    [
        ("<b>hello</b>", 5, "<b>hello</b>"),
        ("<b>hello</b>", 4, "<b>hel…</b>"),
        ('<a href="x">a&amp;b</a>', 2, '<a href="x">a…</a>'),
        ("<b><i>hello</i></b>", 3, "<b><i>he…</i></b>"),
    ],
)
def test_a_cut_falls_into_no_tag_and_closes_what_is_open(html, limit, short):
    assert cut(html, limit) == short


def test_a_text_is_split_where_a_line_or_a_word_ends():
    assert split("<b>one two\nthree four</b>", 14) == ["<b>one two\n</b>", "<b>three four</b>"]
    assert split("one two three", 8) == ["one two ", "three"]
    assert split("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
