"""Polling a feed: what it shows is read whole, in order, and what it hides or makes up is said."""

import json
import logging
from datetime import UTC, datetime

import anyio
import pytest

from onefold.core.cursor import Cursor
from onefold.core.errors import Misconfigured
from onefold.core.record import Gap
from onefold.core.wire import Unreadable
from onefold.sources.poll import Next, Offset, Poll, Token
from onefold.worlds.feed import EPOCH, Feed
from onefold.worlds.site import Response
from tests.fast.sources.reading import polled


def row(number, at=None, **more):
    return {"id": f"r{number}", "timestamp": EPOCH + (number if at is None else at), **more}


def feed_of(site, *numbers, **more):
    feed = Feed(**more)
    feed.add(*map(row, numbers))
    site.routes.update(feed.routes)
    return feed


def read(source, at=None):
    """Read one round; return its pages."""

    async def round_():
        cursor = Cursor(None if at is None else EPOCH + at)
        return [page async for page in source.read(cursor)]

    return anyio.run(round_)


def numbers(pages):
    return [int(one.id[1:]) for page in pages for one in page.records]


def gaps(pages):
    return [page.gap for page in pages if page.gap]


WAYS = {"offset": Offset(limit=10), "token": Token(), "next": Next()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("newest_first", [True, False])
def test_every_way_of_paging_shows_everything_oldest_first(site, way, newest_first):
    feed = feed_of(site, *range(95), paging=way, newest_first=newest_first, page=10, rows="data")
    pages = read(polled(site, feed, paging=WAYS[way], rows="data"))

    assert numbers(pages) == list(range(95))
    assert gaps(pages) == []
    assert [page.more for page in pages][-1] is False


@pytest.mark.parametrize("way", WAYS)
def test_a_newest_first_feed_is_read_back_to_the_cursor_minus_lag_and_no_further(site, way):
    feed = feed_of(site, *range(1000), paging=way, page=10, rows="data")
    pages = read(polled(site, feed, paging=WAYS[way], rows="data", lag=5), at=980)

    assert numbers(pages) == list(range(975, 1000))
    assert feed.asked < 5


def test_an_oldest_first_feed_is_asked_to_start_at_the_cursor_minus_lag(site):
    feed = feed_of(site, *range(100), newest_first=False)
    pages = read(polled(site, feed, paging=Offset(limit=50), start="start", lag=5), at=80)

    assert numbers(pages) == list(range(75, 100))
    assert site.requests[0].query["start"] == str(EPOCH + 75)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_first_round_may_be_told_where_to_begin(site, newest_first):
    feed = feed_of(site, *range(100), newest_first=newest_first)
    source = polled(site, feed, paging=Offset(limit=10), since=datetime.fromtimestamp(EPOCH + 90, UTC))

    assert numbers(read(source)) == list(range(90, 100))


def test_milliseconds_become_seconds_and_go_out_as_milliseconds_again(site):
    feed = Feed(newest_first=False, at="t")
    feed.add({"id": "a", "t": (EPOCH + 1) * 1000 + 500}, {"id": "b", "t": (EPOCH + 2) * 1000})
    site.routes.update(feed.routes)
    source = polled(site, feed, paging=Offset(), at="t", unit="ms", start="start")
    [page, _] = read(source, at=1.5)

    assert [one.at for one in page.records] == [EPOCH + 1.5, EPOCH + 2]
    assert site.requests[0].query["start"] == str((EPOCH + 1) * 1000 + 500)


def test_rows_are_found_and_named_by_functions(site):
    site.routes["GET", "/x"] = lambda request: Response(
        {"result": {"list": [{"tx": "a", "log": 3, "block": 7}]}}
    )
    source = Poll(
        f"{site.url}/x",
        id=lambda row: f"{row['tx']}:{row['log']}",
        at="block",
        unit=None,
        rows=lambda body: body["result"]["list"],
    )
    [page] = read(source)

    assert [(one.id, one.at) for one in page.records] == [("a:3", 7)]
    assert source.timed is False


def test_a_function_for_rows_sees_no_flawed_row_and_the_pages_go_on(site):
    shown = [json.dumps(row(number)) for number in range(25)]
    shown[7] = shown[7].replace("}", ', "size": NaN}')
    shown[12] = shown[12].replace("}", ', "size": 1, "size": 2}')
    shown[20] = '{"id": ' + "9" * 500 + "}"

    def page(request):
        at = int(request.query["offset"])
        return Response(f"[{','.join(shown[::-1][at : at + int(request.query['limit'])])}]".encode())

    site.routes["GET", "/x"] = page
    source = Poll(
        f"{site.url}/x",
        id="id",
        rows=lambda body: [json.loads(json.dumps(one, allow_nan=False)) for one in body],
        paging=Offset(limit=10),
    )
    pages = read(source)

    assert numbers(pages) == [number for number in range(25) if number not in (7, 12, 20)]
    assert len([one for page in pages for one in page.broken]) == 3


# ----- ties, memory


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_tie_larger_than_a_page_is_read_whole(site, newest_first):
    feed = Feed(newest_first=newest_first)
    feed.add(row(0, at=0), *(row(number, at=5) for number in range(1, 100)))
    site.routes.update(feed.routes)
    pages = read(polled(site, feed, paging=Offset(limit=10), start="start"), at=5)

    assert sorted(numbers(pages)) == list(range(1, 100))


def test_a_round_keeps_no_more_than_it_may_and_hands_on_the_oldest(site):
    feed = feed_of(site, *range(100))
    source = polled(site, feed, paging=Offset(limit=10), most=30)
    first = read(source)
    second = read(source, at=29)

    assert numbers(first) == list(range(30))
    assert first[-1].more
    assert numbers(second) == list(range(29, 59))


def test_a_tie_larger_than_a_round_may_keep_is_got_through_by_keeping_more(site, caplog):
    feed = Feed()
    feed.add(*(row(number, at=0) for number in range(100)))
    site.routes.update(feed.routes)
    source = polled(site, feed, paging=Offset(limit=10), most=30)
    rounds = [numbers(read(source, at)) for at in (None, 0, 0, 0)]

    assert [len(found) for found in rounds] == [30, 30, 60, 100]
    assert "keeping 60" in caplog.text


# ----- gaps


@pytest.mark.parametrize(
    ("more", "paging", "reason"),
    [
        ({"shows": 30}, Offset(limit=10), "the feed ends before it"),
        ({}, Offset(limit=10, overlap=1, max=20), "the feed shows no more than 4 pages"),
        ({"max_offset": 20}, Offset(limit=10, overlap=1), "the feed shows no more than 3 pages"),
        ({}, None, "the feed ends before it"),
    ],
)
def test_a_feed_that_does_not_reach_back_to_the_cursor_leaves_a_gap(site, more, paging, reason):
    feed = feed_of(site, *range(100), page=30, **more)
    pages = read(polled(site, feed, paging=paging), at=50)

    [gap] = gaps(pages)
    assert gap == Gap(EPOCH + 50, EPOCH + numbers(pages)[0], reason)
    assert numbers(pages)[-1] == 99


def test_a_budget_that_is_used_up_leaves_a_gap(site):
    feed = feed_of(site, *range(100))
    pages = read(polled(site, feed, paging=Offset(limit=10, overlap=1), pages=3), at=50)

    assert gaps(pages) == [
        Gap(EPOCH + 50, EPOCH + 72, "3 pages were read without coming to it: raise pages=")
    ]


def test_a_first_reading_that_is_cut_off_leaves_a_gap_only_if_it_was_told_where_to_begin(site):
    feed = feed_of(site, *range(100))
    since = read(polled(site, feed, paging=Offset(limit=10, overlap=1), pages=2, since=EPOCH + 5))

    assert gaps(read(polled(site, feed, paging=Offset(limit=10), pages=2))) == []
    assert [gap.since for gap in gaps(since)] == [EPOCH + 5]


@pytest.mark.parametrize(
    ("cursor", "first"), [(None, 50), (60, 50), (80, 70), (30, 20)], ids=["first", "floor", "lag", "set-back"]
)
def test_nothing_before_the_place_that_a_function_gives_is_late(site, cursor, first):
    feed = feed_of(site, *range(100))

    async def since(_):
        return EPOCH + 50

    pages = read(polled(site, feed, since=since, lag=10 if cursor != 60 else 30), at=cursor)

    assert numbers(pages)[0] == first


def test_an_oldest_first_feed_that_begins_after_the_cursor_leaves_a_gap_if_it_says_so_twice(site):
    feed = feed_of(site, *range(100), newest_first=False, shows=30)
    pages = read(polled(site, feed, paging=Offset(limit=50), start="start"), at=50)

    assert gaps(pages) == [Gap(EPOCH + 50, EPOCH + 70, "the feed no longer shows what stood at the cursor")]


def test_an_old_answer_in_place_of_the_first_page_is_no_gap(site):
    feed = feed_of(site, *range(100), newest_first=False)
    honest = site.routes["GET", feed.path]
    old = Response([row(90), row(91)])
    site.routes["GET", feed.path] = lambda request: old if len(site.requests) == 1 else honest(request)

    with pytest.raises(Unreadable, match="two answers to one question"):
        read(polled(site, feed, paging=Offset(limit=50), start="start"), at=50)


def test_a_lag_that_the_feed_does_not_show_is_said_once(site, caplog):
    feed = feed_of(site, *range(100))
    source = polled(site, feed, paging=Offset(limit=10, max=20), lag=50)
    pages = [*read(source, at=90), *read(source, at=90)]

    assert gaps(pages) == []
    assert caplog.text.count("shows less than its lag") == 1


def test_a_page_that_does_not_join_the_one_before_ends_no_reading(site):
    feed = feed_of(site, *range(40))
    honest = site.routes["GET", feed.path]
    far = Response([row(number) for number in range(9, 4, -1)])  # far behind the cursor, as if all were read
    site.routes["GET", feed.path] = lambda request: far if len(site.requests) == 2 else honest(request)

    assert numbers(read(polled(site, feed, paging=Offset(limit=10)), at=15)) == list(range(15, 40))


# ----- what cannot be believed


def test_an_empty_answer_is_not_believed_where_there_were_records(site):
    feed = feed_of(site)

    with pytest.raises(Unreadable, match=f"shows nothing, though there were records up to {EPOCH + 5}"):
        read(polled(site, feed, paging=Offset()), at=5)


@pytest.mark.parametrize("order", ["newest-first", "oldest-first"])
@pytest.mark.parametrize("more", [{"may_be_empty": True}, {"reach": "1h"}])
def test_an_empty_answer_is_believed_where_that_was_said(site, order, more):
    feed = feed_of(site)
    pages = read(polled(site, feed, order=order, paging=Offset(), **more), at=5)

    assert numbers(pages) == []
    assert not pages[-1].more


def test_a_feed_that_was_never_other_than_empty_is_believed(site):
    feed = feed_of(site)
    source = polled(site, feed, paging=Offset())

    assert numbers([*read(source), *read(source)]) == []


def test_an_old_first_page_is_not_believed_until_it_keeps_saying_so(site):
    feed = feed_of(site, *range(10))
    source = polled(site, feed, paging=Offset())
    read(source)
    feed.remove("r9")
    for _ in range(3):
        with pytest.raises(Unreadable, match=r"shows nothing after .* a cache"):
            read(source, at=5)

    assert numbers(read(source, at=5)) == [5, 6, 7, 8]


def test_an_old_first_page_is_not_believed_after_a_restart_either(site):
    feed = feed_of(site, *range(10))

    with pytest.raises(Unreadable, match="a cache"):
        read(polled(site, feed, paging=Offset()), at=50)


def test_a_cache_on_the_way_is_passed_by_urls_that_vary(site):
    feed = feed_of(site, *range(10), cached_for=1000)
    cached, varied = (polled(site, feed, paging=Offset(), vary=vary) for vary in (None, "nonce"))
    dated = polled(site, feed, paging=Offset(), vary=lambda now: {"end": str(int(now * 1e6))})
    for source in (cached, varied, dated):
        read(source)
    feed.add(row(10))

    assert [numbers(read(source))[-1] for source in (cached, varied, dated)] == [9, 10, 10]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Response({"error": "maintenance"}), 'no list of rows, but {"error": "maintenance"}'),
        (Response({"error": "bad"}, 404), "answered 404"),
        (Response([{"id": "a", "timestamp": EPOCH * 1000}]), "is unit='s' right"),
        (Response(b'[{"id": "a"'), "is no JSON"),
    ],
)
def test_an_answer_of_no_use_raises_with_a_sentence(site, answer, reason):
    site.routes["GET", "/x"] = lambda request: answer

    with pytest.raises(Unreadable, match=reason):
        read(Poll(f"{site.url}/x", id="id", backoff=(0.001, 0.01)))


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("http://127.0.0.2/x?cursor=1", "leads to another site, http://127.0.0.2/x: not followed"),
        ("/x?cursor=1", "came before"),
    ],
)
def test_a_link_that_leads_away_or_in_a_circle_raises(site, link, reason):
    site.routes["GET", "/x"] = lambda request: Response({"data": [row(len(site.requests))], "next": link})

    with pytest.raises(Unreadable, match=reason):
        read(Poll(f"{site.url}/x", id="id", rows="data", paging=Next()))


def test_a_key_goes_with_every_link_and_filters_with_every_token(site):
    feed = feed_of(site, *range(30), paging="next", page=10, rows="data")
    read(
        polled(
            site, feed, paging=Next(), rows="data", params={"apiKey": "k", "min": 5}, headers={"X-Key": "h"}
        )
    )

    assert len(site.requests) == 3
    for request in site.requests:
        assert (request.query["apiKey"], request.query["min"], request.headers["X-Key"]) == ("k", "5", "h")


def test_an_endless_chain_ends_with_the_budget(site):
    def endless(request):
        number = 10_000 - int(request.query.get("cursor", 0))
        return Response({"data": [row(number)], "next_cursor": 10_001 - number})

    site.routes["GET", "/x"] = endless
    pages = read(Poll(f"{site.url}/x", id="id", rows="data", paging=Token(), pages=20), at=5)

    assert len(site.requests) == 20
    assert gaps(pages)[0].reason == "20 pages were read without coming to it: raise pages="


def test_an_oldest_first_feed_that_leads_no_further_is_said(site):
    feed = Feed(newest_first=False)
    feed.add(*(row(number, at=0) for number in range(100)))
    site.routes.update(feed.routes)

    with pytest.raises(Unreadable, match="3 pages that lead no further than"):
        read(polled(site, feed, paging=Offset(limit=10), start="start", pages=3), at=0)


def test_an_oldest_first_round_that_used_its_pages_goes_on_in_the_next(site):
    feed = feed_of(site, *range(100), newest_first=False)
    pages = read(polled(site, feed, paging=Offset(limit=10, overlap=1), start="start", pages=3), at=0)

    assert numbers(pages) == list(range(28))
    assert pages[-1].more


def test_broken_rows_are_handed_on_once_with_the_reason(site):
    feed = feed_of(site, *range(5))
    feed.add({"id": "", "timestamp": EPOCH + 3}, {"id": "x", "timestamp": EPOCH * 1000})
    site.routes["GET", feed.path] = lambda request: Response([*feed.answer(request).body, "text"])
    source = polled(site, feed)
    first, second = read(source), read(source)

    assert sorted(one.reason for page in first for one in page.broken) == [
        "it has no id, but ",
        "it is no object, but str",
        "its time is 1700000000000",
    ]
    assert [one for page in second for one in page.broken] == []
    assert numbers(first) == list(range(5))


# ----- pace and settings


def test_a_round_waits_until_it_is_due_and_not_while_there_is_more(site):
    feed = feed_of(site, *range(100))
    source = polled(site, feed, paging=Offset(limit=10), most=30, every="1h")
    read(source)
    read(source, at=29)
    read(source, at=58)
    read(source, at=87)

    async def not_yet():
        with anyio.move_on_after(0.05) as waited:
            await anext(source.read(Cursor(EPOCH + 99)))
        return waited.cancelled_caught

    assert anyio.run(not_yet)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"order": "random"}, "order is 'random': write newest-first or oldest-first"),
        ({"unit": "minutes"}, "unit is 'minutes'"),
        ({"paging": "offset"}, r"paging is 'offset': write Offset\(…\)"),
        ({"paging": Offset(limit=1)}, "a page must hold 2 rows or more"),
        ({"pages": 0}, "write 1 or more"),
        ({"every": 0}, "every is 0"),
        ({"lag": "soon"}, "lag is 'soon'"),
        ({"since": datetime(2026, 1, 1)}, "without a time zone"),  # noqa: DTZ001
    ],
)
def test_settings_that_cannot_work_are_refused(more, reason):
    with pytest.raises(Misconfigured, match=reason):
        Poll("http://127.0.0.1/x", **{"id": "id", **more})


def test_a_source_names_itself_without_its_secrets(site, caplog):
    caplog.set_level(logging.DEBUG)
    source = Poll(f"{site.url}/x?key=very-secret", id="id", headers={"Authorization": "also-secret"})
    with pytest.raises(Unreadable) as error:
        read(source)

    assert "secret" not in f"{source} {source!r} {error.value} {caplog.text}"
