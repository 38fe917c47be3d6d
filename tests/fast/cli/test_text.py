"""Text for terminals: nothing stored can move the cursor, secrets are taken out, columns are aligned."""

import pytest

from onefold.cli.text import counted, cut, pairs, shown, table
from onefold.core.redaction import scrubbed


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain ünïcode 漢字", "plain ünïcode 漢字"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, safe: str):
    assert shown(text) == safe


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("redis://u:p@h/0", "redis://***@h/0"),
        ("redis://h/0?password=p&x=1", "redis://h/0?password=***&x=1"),
        ("cannot reach 'redis://u:p@h/0' now", "cannot reach 'redis://***@h/0' now"),
        ("postgresql://u:p@ss@h/0", "postgresql://***@h/0"),
        ("sqlite:////home/a@b/x.db", "sqlite:////home/a@b/x.db"),
        ("sqlite:///x.db?synchronous=normal", "sqlite:///x.db?synchronous=normal"),
        ("mail to a@b about redis://h/0", "mail to a@b about redis://h/0"),
    ],
)
def test_secrets_are_taken_out_of_urls(url: str, safe: str):
    assert scrubbed(url) == safe


def test_columns_are_aligned():
    assert table(("name", "n"), [("a", "10"), ("long name", "7")], right=[1]) == [
        "name        n",
        "a          10",
        "long name   7",
    ]
    assert pairs([("a", "1"), ("without", ""), ("long", "2")]) == ["  a     1", "  long  2"]
    assert pairs([]) == []


def test_numbers_come_with_their_noun():
    assert [counted(n, "entry", "entries") for n in (0, 1, 1234)] == ["0 entries", "1 entry", "1,234 entries"]
    assert counted(2, "finding") == "2 findings"


def test_what_is_cut_says_so():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
