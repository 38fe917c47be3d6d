"""Keys, terms, entries, stories: the values everything else is built of."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum, IntFlag, StrEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onefold.core.claims import Answer
from onefold.core.entry import NOTHING, Change, Entry, Seen, due, expired, stamped
from onefold.core.errors import (
    Busy,
    LostClaim,
    Misconfigured,
    Mismatch,
    NoReceipt,
    OnefoldError,
    Parked,
    Unsettled,
)
from onefold.core.key import LABEL_LENGTH, Key, escaped, parts_of
from onefold.core.story import moment, next_steps, span, tell
from onefold.core.terms import Terms, epoch, forever_or_seconds, seconds

KEY = Key("charges", "A-17")


# ----- keys


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a",), ("A",)),
        (("a",), ("a ",)),
        (("é",), ("e\u0301",)),
        (("a", "b"), ("ab",)),
        (("a", "b"), ("a/b",)),
        (("a\0",), ("a",)),
        (("1", "23"), ("12", "3")),
        (("x" * 4_000_000 + "a",), ("x" * 4_000_000 + "b",)),
    ],
)
def test_keys_that_differ_only_a_little_are_distinct(one, other):
    assert Key("s", *one) != Key("s", *other)
    assert Key("s", *one).id != Key("s", *other).id


def test_the_scope_is_part_of_the_key():
    assert Key("a", "bc") != Key("ab", "c")


def test_a_whole_number_stands_for_its_decimal_text():
    assert Key("s", 17) == Key("s", "17")
    assert hash(Key("s", 17)) == hash(Key("s", "17"))


@given(st.lists(st.text(min_size=1).filter(lambda text: text.isascii() or text.isprintable()), min_size=1))
def test_equal_parts_make_equal_keys_and_labels_are_bounded_and_printable(parts):
    assert Key("s", *parts) == Key("s", *parts)
    assert len(Key("s", *parts).label) <= LABEL_LENGTH
    assert Key("s", *parts).label.isprintable()


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ((), "no parts"),
        (("",), "empty"),
        (("a", ""), "empty"),
        (("\ud800",), "not valid Unicode"),
        ((True,), "type bool"),
        ((1.5,), "type float"),
        ((None,), "type NoneType"),
        ((datetime(2026, 1, 1, tzinfo=UTC),), "type datetime"),
    ],
)
def test_a_bad_key_is_refused_with_a_sentence(parts, word):
    with pytest.raises(Misconfigured, match=word):
        Key("s", *parts)


@pytest.mark.parametrize("scope", ["", "a\nb", "x" * 129, None, 7])
def test_a_bad_scope_is_refused(scope):
    with pytest.raises(Misconfigured, match="is no scope"):
        Key(scope, "a")


def test_parts_may_be_subclasses_of_text():
    class Name(str):
        __slots__ = ()

    assert Key("s", Name("a")) == Key("s", "a")


class Plan(str, Enum):  # noqa: UP042  (StrEnum prints as its value: this is about members that do not)
    GOLD = "gold"


class Shouted(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


@pytest.mark.parametrize(
    ("part", "text", "printed", "advice"),
    [(Plan.GOLD, "gold", "Plan.GOLD", ".value"), (Shouted("gold"), "gold", "GOLD", "plain text")],
)
def test_text_that_prints_as_another_text_is_refused_with_both_ways_to_go_on(part, text, printed, advice):
    with pytest.raises(Misconfigured) as refused:
        Key("charges", "A-17", part)

    for word in (repr(text), repr(printed), f"pass {advice} for new keys", "pass str(part) for as long as"):
        assert word in str(refused.value)


def test_members_of_enums_whose_key_is_that_of_their_value_are_taken():
    class Colour(StrEnum):
        RED = "red"

    class Level(IntEnum):
        HIGH = 7

    class Size(int, Enum):
        BIG = 3

    class Access(IntFlag):
        READ = 4

    class Named(str, Enum):  # noqa: UP042
        A = "a"

        def __str__(self) -> str:
            return self.value

    for member in (Colour.RED, Level.HIGH, Size.BIG, Access.READ, Named.A):
        assert Key("s", member) == Key("s", member.value)
        assert all(type(part) is str for part in Key("s", member).parts)


def test_a_scope_that_is_a_member_of_an_enum_is_its_text():
    key = Key(Plan.GOLD, "a")

    assert (key, str(key), type(key.scope)) == (Key("gold", "a"), "gold/a", str)


def test_a_uuid_is_the_key_of_its_text():
    order = UUID("6F1B4C9E-3D1A-4B7E-9A52-0C5DE2B3F701")

    assert Key("charges", order) == Key("charges", "6f1b4c9e-3d1a-4b7e-9a52-0c5de2b3f701")
    assert Key("charges", order, 2).spelled == "charges 6f1b4c9e-3d1a-4b7e-9a52-0c5de2b3f701 2"


def test_a_key_is_spelt_as_a_shell_would_read_it():
    assert Key("charges", "A-17").spelled == "charges A-17"
    assert Key("charges", "it's", "2").spelled == "charges 'it'\"'\"'s' 2"
    hostile = Key("charges", "a\nb")
    assert hostile.spelled == f"charges --id {hostile.id.hex()}"


def test_a_key_from_a_store_is_the_same_key():
    stored = Key.stored(KEY.scope, KEY.id, KEY.label)

    assert stored == KEY
    assert stored.spelled == f"charges --id {KEY.id.hex()}"
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    assert KEY != "charges/A-17"
    assert (str(KEY), repr(KEY)) == ("charges/A-17", "<Key charges/A-17>")


def test_labels_cannot_move_a_terminal_or_fake_a_separator():
    assert escaped("a\x1b[2Jb\n/\\") == "a\\x1b[2Jb\\n\\/\\\\"
    assert Key("s", "x" * 500, "y").label.endswith("…")


@pytest.mark.parametrize(
    "parts",
    [("a",), ("a", "b"), ("a/b", "c\\d"), ("\\n", "\n\t\r"), ("\x1b\u200b\U000e0001",), ("\\x41", "ü…")],
)
def test_a_label_that_was_not_cut_gives_its_parts_back(parts: tuple[str, ...]):
    assert parts_of(Key("s", *parts).label) == list(parts)


@pytest.mark.parametrize("text", ["\\U00110000", "\\", "//", "\\q", "…"])
def test_any_text_can_be_read_as_a_label(text: str):
    assert all(isinstance(part, str) for part in parts_of(text))


# ----- terms


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (90, 90.0),
        ("90s", 90.0),
        ("15m", 900.0),
        ("8d", 691200.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("2w", 1209600.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_durations_are_read_as_people_write_them(written, value):
    assert seconds(written, "lease") == value


@pytest.mark.parametrize("bad", [0, -1, None, True, "", "8", "8 days", float("nan"), float("inf"), 1e12, []])
def test_a_lease_of_nothing_cannot_be_built(bad):
    with pytest.raises(Misconfigured, match="lease is"):
        Terms(lease=bad)


def test_keep_is_for_ever_or_a_duration():
    assert forever_or_seconds("forever", "keep") is None
    assert Terms(keep="8d").keep == 691200.0
    with pytest.raises(Misconfigured, match="keep is"):
        Terms(keep=0)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None])
def test_attempts_are_a_whole_number_from_one_on(bad):
    with pytest.raises(Misconfigured, match="attempts is"):
        Terms(attempts=bad)


@pytest.mark.parametrize("bad", [None, (1,), (0, 1), (1, None), 5])
def test_a_backoff_has_a_first_and_a_longest(bad):
    with pytest.raises(Misconfigured, match="backoff is"):
        Terms(backoff=bad)


def test_a_backoff_doubles_up_to_its_longest():
    terms = Terms(backoff=(1, 60))

    assert [terms.delay(n) for n in (0, 1, 2, 3, 7, 10_000)] == [1, 1, 2, 4, 60, 60]


def test_a_datetime_without_a_zone_is_refused():
    with pytest.raises(Misconfigured, match="without a time zone"):
        epoch(datetime(2026, 1, 1), "at")  # noqa: DTZ001
    with pytest.raises(Misconfigured, match="give a datetime"):
        epoch("2026-01-01", "at")  # type: ignore[arg-type]
    assert epoch(datetime(1970, 1, 1, 1, tzinfo=UTC), "at") == 3600.0


# ----- entries


def test_a_store_stamps_version_fence_and_times():
    wanted = Entry("held", token="t", version=9, written=9.0, begun=9.0)

    entry = stamped(Change(KEY, None, wanted, begin=True, delay=5, keep=7), 1_000_000, 100.0)

    assert (entry.version, entry.fence, entry.written) == (1_000_000, 1_000_000, 100.0)
    assert (entry.begun, entry.not_before, entry.expires) == (100.0, 105.0, 107.0)


def test_a_later_write_keeps_fence_and_begun():
    entry = stamped(Change(KEY, 5, Entry("done", fence=4, begun=9.0)), 6, 100.0)

    assert (entry.version, entry.fence, entry.begun, entry.not_before, entry.expires) == (
        6,
        4,
        9.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("entry", "at"),
    [
        (Entry("held", written=10.0, lease=60.0), 70.0),
        (Entry("free", written=10.0, not_before=15.0), 15.0),
        (Entry("free", written=10.0), 10.0),
        (Entry("parked", written=10.0), 10.0),
        (Entry("done", written=10.0), None),
    ],
)
def test_open_entries_are_due_and_done_ones_never(entry, at):
    assert due(entry) == at


def test_only_done_entries_expire():
    assert expired(Entry("done", expires=5.0), 5.0)
    assert not expired(Entry("done", expires=5.0), 4.9)
    assert not expired(Entry("done"), 1e12)
    assert not expired(Entry("held", expires=5.0), 1e12)


# ----- errors


@pytest.mark.parametrize(
    ("error", "ran", "words"),
    [
        (Busy(KEY, 3.25), "no", "ask again in 3.2 s"),
        (Mismatch(KEY), "no", "other content"),
        (Parked(KEY, "in-doubt"), "unknown", "onefold why charges A-17"),
        (LostClaim(KEY), "unknown", "no longer ours"),
        (Unsettled(KEY, 5), "yes", "did not confirm"),
        (NoReceipt(KEY, "it was too large"), "yes", "it was too large"),
    ],
)
def test_errors_say_what_is_known_and_survive_pickling(error, ran, words):
    again = pickle.loads(pickle.dumps(error))

    assert isinstance(error, OnefoldError)
    assert (error.ran, again.ran) == (ran, ran)
    assert words in str(error)
    assert again.key == KEY


# ----- stories


HELD = Entry("held", lease=60.0, written=1_700_000_000.0)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (NOTHING, "never claimed"),
        (Seen(HELD, 10), "its lease ends in 50 s"),
        (Seen(HELD, 90), "fell silent: the lease ended 30 s ago"),
        (
            Seen(replace(HELD, state="done"), 0),
            "is done since 2023-11-14 22:13:20Z; it is remembered for ever",
        ),
        (Seen(replace(HELD, state="done", expires=1_700_000_060.0), 0), "until 2023-11-14 22:14:20Z"),
        (Seen(replace(HELD, state="free"), 0), "it was not tried, and may run at any time"),
        (Seen(replace(HELD, state="free", attempt=1), 0), "it was tried 1 time, and"),
        (
            Seen(replace(HELD, state="free", attempt=2, not_before=1_700_000_009.0), 4),
            "2 times, and waits 5.0 s",
        ),
        (Seen(replace(HELD, state="parked", why="in-doubt"), 0), "running it again could double it"),
        (
            Seen(replace(HELD, state="parked", why="failed"), 0),
            "it did not happen, and no worker tries it again by itself; it was not tried",
        ),
        (Seen(replace(HELD, state="parked", why="failed", attempt=1), 0), "by itself; it was tried 1 time."),
        (Seen(replace(HELD, state="parked", why="by-hand"), 0), "set aside by hand"),
        (Seen(replace(HELD, state="parked", why="beyond-memory"), 0), "older than the ledger's memory"),
    ],
)
def test_every_state_has_its_sentence(seen, words):
    assert words in tell(KEY, seen)


def test_the_next_steps_of_what_is_parked_are_commands():
    in_doubt = next_steps(KEY, Seen(replace(HELD, state="parked", why="in-doubt")))
    failed = next_steps(KEY, Seen(replace(HELD, state="parked", why="failed")))

    assert in_doubt == [
        "onefold resolve charges A-17 --happened",
        "onefold resolve charges A-17 --did-not-happen",
    ]
    assert failed == ["onefold retry charges A-17", *in_doubt]
    assert next_steps(KEY, NOTHING) == next_steps(KEY, Seen(HELD)) == []


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (-1, "0.0 s"),
        (0.25, "0.2 s"),
        (12, "12 s"),
        (60, "1 m"),
        (90, "1 m 30 s"),
        (7200, "2 h"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_written_in_two_units(length, text):
    assert span(length) == text


def test_moments_are_written_in_utc():
    assert moment(0) == "1970-01-01 00:00:00Z"
    assert moment(1e20) == "100000000000000000000 s after 1970"
    assert span(float("inf")) == "for ever"


def test_answers_compare_by_value():
    assert Answer("won") == Answer("won")
