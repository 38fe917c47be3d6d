"""The notifier of listings: each user hears of each listing once, and the cursor passes nobody over."""

from __future__ import annotations

from itertools import chain
from typing import Any

import anyio

from onefold.apps.listings.matching import Matches, match_parts
from onefold.apps.listings.writing import Tables
from onefold.core.cursor import Cursor
from onefold.core.key import Key
from onefold.core.record import Record, Standing
from onefold.runtime import now
from onefold.tables.times import OURS
from onefold.worlds.chat import ChatWorld
from onefold.worlds.mischief import Mischief
from tests.databases import Place
from tests.fast.apps.letting import heard, place, settings, watch, worker
from tests.fast.sinks.stage import run_until

__all__ = ["place"]

NOWHERE = Cursor()


def add(place: Place, item: str, at: float | None = None, price: float = 5000, **more: Any) -> None:
    """Put a listing in that was noticed at a time; now, if none is given."""
    if not place.run("SELECT 1 FROM sources"):
        place.run("INSERT INTO sources (name) VALUES ('flats')")
    when = OURS.written(now() if at is None else at)
    row = {"title": f"flat {item}", "price": price, "url": f"https://flats.example/flat-{item}", **more}
    columns = {"source_id": 1, "source_item_id": item, **row, "ingested_at": when, "noticed_at": when}
    marks = ", ".join("?" * len(columns))
    place.run(f"INSERT INTO listings ({', '.join(columns)}) VALUES ({marks})", *columns.values())


def notify(place: Place, chat: ChatWorld, *wanted: tuple[str, str], **more: Any) -> None:
    """Run a notifier until these were heard and written down; without any, for one round."""
    one = worker(settings(place, None, chat, **more), place, "notifier", once=not wanted)
    if not wanted:
        anyio.run(one.arun)
        return
    run_until(one, lambda: set(wanted) <= set(heard(chat)) and sent(place) >= len(heard(chat)))


def sent(place: Place) -> int:
    [[count]] = place.run("SELECT COUNT(*) FROM notifications_sent")
    return int(count)


def entry(place: Place, chat: str, item: str) -> Any:
    [seen] = place.store.get([Key("listings.notifier", chat, "flats", item)])
    return seen.entry


def source(place: Place) -> Matches:
    return Matches(Tables(place.url), 86400)


def shown(matches: Matches, cursor: Cursor = NOWHERE) -> list[Record]:
    """Read one round."""
    try:
        return [record for page in matches.pages(cursor) for record in page.records]
    finally:
        matches.close()


def names(records: list[Record]) -> list[str]:
    return [record.id for record in records if record.body]


# ----- once


def test_each_user_hears_of_each_listing_once_and_it_is_written_down(place):
    watch(place, "ann")
    watch(place, "bob", max_price=4000)
    add(place, "a")
    add(place, "b", price=3000)
    with ChatWorld() as chat:
        notify(place, chat, ("ann", "a"), ("ann", "b"), ("bob", "b"))
        notify(place, chat)

    assert heard(chat) == {("ann", "a"): 1, ("ann", "b"): 1, ("bob", "b"): 1}
    assert sorted(place.run("SELECT user_id, listing_id, channel FROM notifications_sent")) == [
        (1, 1, "telegram"),
        (1, 2, "telegram"),
        (2, 2, "telegram"),
    ]


def test_two_filters_of_one_user_make_one_message(place):
    watch(place, "ann")
    place.run("INSERT INTO filters (user_id, name) VALUES (1, 'another')")
    add(place, "a")
    with ChatWorld() as chat:
        notify(place, chat, ("ann", "a"))

    assert heard(chat) == {("ann", "a"): 1}


def test_what_was_sent_before_onefold_came_is_not_sent_again(place):
    watch(place, "ann")
    add(place, "old")
    add(place, "new")
    place.run(
        "INSERT INTO notifications_sent (user_id, listing_id, sent_at) VALUES (1, 1, ?)", OURS.written(now())
    )
    with ChatWorld() as chat:
        notify(place, chat, ("ann", "new"))

    assert heard(chat) == {("ann", "new"): 1}


def test_a_message_that_was_sent_but_not_written_down_is_written_down_and_not_sent_again(place):
    # The seed sends, then records: a crash in between sends again.
    watch(place, "ann")
    add(place, "a")
    with ChatWorld() as chat:
        notify(place, chat, ("ann", "a"))
        place.run("DELETE FROM notifications_sent")
        notify(place, chat)

    assert heard(chat) == {("ann", "a"): 1}
    assert sent(place) == 1


def test_an_answer_that_was_lost_leaves_the_message_in_doubt_and_is_not_repeated(place):
    watch(place, "ann")
    add(place, "a")
    with ChatWorld(Mischief(1, {"cut-after": 1.0})) as chat:
        one = worker(settings(place, None, chat), place, "notifier")
        run_until(one, lambda: _parked(place))
        notify(place, chat)

    assert len(chat.requests) == 1
    assert entry(place, "ann", "a").why == "in-doubt"
    assert heard(chat) == {("ann", "a"): 1}


def _parked(place: Place) -> bool:
    found = entry(place, "ann", "a")
    return found is not None and found.state == "parked"


# ----- the cursor


def test_a_send_that_failed_is_tried_again_and_the_cursor_does_not_pass_it_over(place):
    watch(place, "ann")
    add(place, "a", now() - 100)
    add(place, "b", now() - 50)
    with ChatWorld() as chat:
        chat.floods["ann"] = 3
        chat.retry_after = 0.1
        notify(place, chat, ("ann", "a"), ("ann", "b"))

    assert heard(chat) == {("ann", "a"): 1, ("ann", "b"): 1}


def test_a_send_that_failed_is_made_after_a_restart_though_others_went_on_meanwhile(place):
    # The seed moved its cursor with status ok although some sends had failed.
    watch(place, "ann")
    watch(place, "bob")
    add(place, "a", now() - 100)
    add(place, "b", now() - 50)
    with ChatWorld() as chat:
        chat.floods["ann"] = 100_000
        chat.retry_after = 0.1
        notify(place, chat, ("bob", "a"), ("bob", "b"))
        assert not [who for who, _ in heard(chat) if who == "ann"]
        chat.floods.clear()
        add(place, "c", now())
        notify(place, chat, ("ann", "a"), ("ann", "b"), ("ann", "c"), ("bob", "c"))

    assert heard(chat) == {(who, item): 1 for who in ("ann", "bob") for item in "abc"}


def test_listings_of_the_same_second_are_each_told(place):
    watch(place, "ann")
    second = float(int(now()))
    add(place, "a", second)
    with ChatWorld() as chat:
        notify(place, chat, ("ann", "a"))
        add(place, "b", second)  # committed later, stamped the same
        notify(place, chat, ("ann", "b"))

    assert heard(chat) == {("ann", "a"): 1, ("ann", "b"): 1}


def test_a_listing_that_was_stamped_earlier_and_committed_later_is_told(place):
    watch(place, "ann")
    moment = now()
    add(place, "late", moment - 60)

    assert names(shown(source(place), Cursor(moment))) == ["ann/flats/late"]


def test_ten_listings_may_have_one_time_of_ingestion_and_are_told_apart_by_their_names(place):
    watch(place, "ann")
    moment = now()
    for n in range(10):
        add(place, f"f{n}", moment)
    found = shown(source(place))

    assert len({match_parts(record) for record in found if record.body}) == 10


def test_a_notifier_that_was_down_for_days_goes_on_where_it_was(place):
    watch(place, "ann")
    add(place, "three-days-ago", now() - 3 * 86400)
    add(place, "before-the-window", now() - 6 * 86400)

    assert names(shown(source(place), Cursor(now() - 4 * 86400))) == ["ann/flats/three-days-ago"]
    assert names(shown(source(place))) == [], "the very first run sees the window"


def test_more_listings_than_a_page_are_all_shown(place):
    watch(place, "ann")
    add(place, "first")
    moment = now()
    many = [(1, f"f{n}", f"flat {n}", *[OURS.written(moment - n % 7)] * 2) for n in range(1100)]
    place.run(
        "INSERT INTO listings (source_id, source_item_id, title, ingested_at, noticed_at) "
        f"VALUES {', '.join(['(?, ?, ?, ?, ?)'] * len(many))}",
        *chain(*many),
    )

    assert len(set(names(shown(source(place))))) == 1101


# ----- filters


def test_a_filter_made_after_the_cursor_sees_the_window_and_nothing_older(place):
    add(place, "yesterday", now() - 20 * 3600)
    add(place, "last-week", now() - 7 * 86400)
    with ChatWorld() as chat:
        one = worker(settings(place, None, chat), place, "notifier")

        def grown() -> bool:
            if not place.run("SELECT 1 FROM users") and one_read(place):
                watch(place, "new")
            return bool(heard(chat)) and sent(place) == 1

        run_until(one, grown)

    assert heard(chat) == {("new", "yesterday"): 1}


def one_read(place: Place) -> bool:
    """Say whether a notifier has written its cursor."""
    [seen] = place.store.get([Key("onefold.cursors", "listings.notifier", "matches")])
    return seen.entry is not None


def test_a_filter_that_is_switched_on_again_or_edited_sees_the_window(place):
    watch(place, "ann", enabled=0)
    watch(place, "bob", max_price=10)
    add(place, "a", now() - 3600)

    assert names(shown(source(place), Cursor(now()))) == []
    place.run("UPDATE filters SET enabled = 1, max_price = NULL")
    assert names(shown(source(place), Cursor(now()))) == ["ann/flats/a", "bob/flats/a"]


def test_without_active_filters_the_cursor_moves_and_a_later_filter_still_sees_the_window(place):
    noticed = now() - 3600
    add(place, "a", noticed)
    [looked] = shown(source(place))

    assert (looked.body, match_parts(looked), round(looked.at)) == (None, None, round(noticed))
    assert shown(source(place), Cursor(looked.at)) == [], "it does not look at the same place for ever"
    watch(place, "ann")
    assert names(shown(source(place), Cursor(looked.at))) == ["ann/flats/a"]


def test_a_price_that_falls_into_a_filter_brings_an_old_listing_back(place):
    watch(place, "ann", max_price=4000)
    add(place, "a", now() - 30 * 86400, price=5000)
    assert names(shown(source(place), Cursor(now()))) == []
    place.run("UPDATE listings SET price = 3500, price_before = 5000, noticed_at = ?", OURS.written(now()))

    assert names(shown(source(place), Cursor(now()))) == ["ann/flats/a"]


def test_a_filter_that_cannot_be_read_is_set_aside_once_and_disturbs_nobody(place):
    watch(place, "ann", cities_json="[")
    watch(place, "bob")
    add(place, "a")
    with ChatWorld() as chat:
        notify(place, chat, ("bob", "a"))

    assert heard(chat) == {("bob", "a"): 1}
    found, _ = place.store.scan("listings.notifier.broken", ["parked"], False, None, 10)
    assert len(found) == 1


# ----- chats


def test_a_chat_that_blocked_the_bot_is_parked_once_and_left_out_until_a_person_lets_it_in(place):
    watch(place, "ann")
    watch(place, "bob")
    add(place, "a")
    with ChatWorld() as chat:
        chat.blocked.add("ann")
        one = worker(settings(place, None, chat), place, "notifier")
        run_until(one, lambda: bool(place.run("SELECT 1 FROM users WHERE blocked_at IS NOT NULL")))
        add(place, "b")
        notify(place, chat, ("bob", "a"), ("bob", "b"))
        assert entry(place, "ann", "b") is None
        chat.blocked.clear()
        place.run("UPDATE users SET blocked_at = NULL")
        notify(place, chat, ("ann", "b"))

    assert heard(chat) == {("bob", "a"): 1, ("bob", "b"): 1, ("ann", "b"): 1}
    assert entry(place, "ann", "a").why == "failed"


def test_only_what_is_done_is_written_down_as_sent(place):
    watch(place, "ann")
    add(place, "a")
    matches = source(place)
    [record, looked] = shown(matches)
    matches.note([Standing(record, "parked"), Standing(looked, "done"), Standing(record, "kept")])
    assert sent(place) == 0
    matches.note([Standing(record, "done"), Standing(record, "done")])
    matches.close()

    assert sent(place) == 1
