"""The account of the demo: what counts as lost and as done twice, and what the command makes of it."""

from __future__ import annotations

from collections import Counter

import pytest

from onefold.cli.codes import Code
from onefold.cli.demo import report
from onefold.worlds.demo.account import account, kept_in
from onefold.worlds.demo.frame import Result, table
from tests.fast.cli.stage import Cli


@pytest.mark.parametrize(
    ("happened", "code", "sentence"),
    [(1, Code.FINE, "The account adds up."), (2, Code.FAILED, "THE ACCOUNT DOES NOT ADD UP.")],
)
def test_the_command_says_whether_the_account_adds_up_and_exits_accordingly(happened, code, sentence, capsys):
    found = account("app", Counter(a=1), Counter(a=happened), 0, {})

    assert report(Result(1, 0.0, 0.0, 0, 0, [found], []), json=False) == code
    assert capsys.readouterr().out.endswith(f"{sentence}\n")


def test_an_application_that_is_not_there_is_named(cli: Cli):
    result = cli("demo", "--app", "minnows")

    assert result.exit_code == Code.USAGE
    assert "there is no minnows in the demo" in result.stderr


@pytest.mark.parametrize(
    ("expected", "happened", "parked", "wanted"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {}, (3, 0, 0, True)),
        ({"a": 1, "b": 2}, {"a": 1, "b": 1}, {}, (2, 1, 0, False)),
        ({"a": 1}, {"a": 2}, {}, (1, 0, 1, False)),
        ({"a": 1}, {"a": 1, "x": 1}, {}, (1, 0, 1, False)),
        ({"a": 1, "b": 1}, {"a": 1}, {"b": "in-doubt"}, (1, 0, 0, True)),
    ],
)
def test_what_is_neither_done_nor_parked_is_lost_and_what_is_too_much_happened_twice(
    expected, happened, parked, wanted
):
    found = account("app", Counter(expected), Counter(happened), 4, parked)

    assert (found.effects, found.lost, found.twice, found.adds_up) == wanted
    assert found.events == sum(expected.values()) + 4


def test_a_gap_that_was_reported_is_not_lost():
    found = account("app", Counter(a=2), Counter(), 0, {}, Counter(a=1))

    assert (found.gaps, found.lost, found.adds_up) == (2, 0, True)


def test_the_account_is_a_table_with_a_line_for_each_and_one_for_the_naive():
    ours = account("app", Counter(a=1), Counter(a=1), 0, {})
    theirs = account("app", Counter(a=1), Counter(a=2), 0, {})
    head, line, naive = table(Result(1, 0.0, 0.0, 0, 0, [ours], [theirs]))

    assert head.split() == ["events", "effects", "filtered", "parked", "gaps", "lost", "twice"]
    assert line.split() == ["app", "1", "1", "0", "0", "0", "0", "0"]
    assert naive.split() == ["naive", "app", "1", "1", "0", "0", "0", "0", "1"]


@pytest.mark.parametrize("body", [None, '{"for":"ann"}', {"for": "ann"}, "[]"])
def test_what_an_entry_keeps_is_read_from_the_list(body):
    assert kept_in({"body": body}) == ({"for": "ann"} if body and "ann" in str(body) else {})
