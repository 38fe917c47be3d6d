"""Candles reads pages: a page that fails, lies or leads elsewhere never makes a tile look whole."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from onefold import Ledger
from onefold.apps.candles.download import Page, Shown, after, whole
from onefold.core.coverage import Span
from onefold.core.wire import Unreadable
from onefold.worlds.bars import KEY, Bars
from tests.fast.apps.candles import (
    DAY,
    MONDAY,
    NOW,
    TICKER,
    WEEKDAYS,
    all_in,
    coverage,
    settings,
    states,
    stored,
    truth,
    worker,
    world,
)
from tests.fast.worker.stage import run_until


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def test_a_failed_second_page_leaves_the_tile_partial_and_its_first_page_stored(ledger, tmp_path):
    # E13, and the seed: a page that failed ended the list, and the period counted as downloaded.
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.failing[1] = 10_000
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])
        halfway = coverage(ledger)
        api.failing.clear()
        run_until(worker(said, ledger), lambda: states(ledger) == ["complete"])

    assert halfway[0].rows == 500
    assert len(stored(said.bars)) == len(truth(api, Span(MONDAY, MONDAY + DAY)))


def test_an_empty_page_with_a_link_does_not_end_the_tile(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.empty_between = True
        said = settings(api, tmp_path)
        run_until(worker(said, ledger), lambda: all_in(ledger))

    assert stored(said.bars) == truth(api, WEEKDAYS)


def test_the_key_is_sent_again_with_every_page_and_never_in_a_url(ledger, tmp_path):
    with world(page=300) as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["complete"])

    assert api.journal.of("stranger") == []
    assert len(api.requests) == 5
    assert not any(KEY in f"{request.path}?{request.raw_query}" for request in api.requests)


def test_a_link_to_a_foreign_host_is_not_followed_and_the_tile_stays_partial(ledger, tmp_path):
    with world() as api, Bars(now=lambda: NOW) as stranger:
        api.draw(TICKER, WEEKDAYS)
        api.links_to = stranger.url
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])

    assert stranger.requests == []
    assert coverage(ledger)[0].rows == 500


def test_a_link_that_leads_in_a_circle_ends_and_the_tile_stays_partial(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.circles = True
        run_until(
            worker(settings(api, tmp_path, until="2025-10-07"), ledger),
            lambda: states(ledger) == ["partial"],
        )


def test_delayed_data_are_data(ledger, tmp_path):
    with world() as api:
        api.status = "DELAYED"
        api.draw(TICKER, WEEKDAYS)
        run_until(worker(settings(api, tmp_path), ledger), lambda: all_in(ledger))


def test_a_status_that_is_not_known_is_no_answer(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.status = "ERROR"
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: states(ledger) == ["partial"])

    assert stored(said.bars) == {}


def test_a_wrong_key_is_told_and_waits_without_using_up_attempts(ledger, tmp_path):
    with Bars(key="another-key-9876543210", now=lambda: NOW) as api:
        api.draw(TICKER, WEEKDAYS)
        said = settings(api, tmp_path, until="2025-10-07")
        run_until(worker(said, ledger), lambda: len(api.journal.of("stranger")) > 3)

    assert states(ledger) == ["partial"]


def test_what_the_plan_does_not_show_is_parked_and_holds_nothing_up(ledger, tmp_path):
    with world() as api:
        api.draw(TICKER, WEEKDAYS)
        api.plan_begins = MONDAY + DAY
        run_until(worker(settings(api, tmp_path), ledger), lambda: states(ledger).count("complete") == 2)

    opened = Ledger(ledger)
    parked = [(key.label, entry.why) for key, entry in opened.entries("candles", "parked")]
    opened.close()
    assert parked == [(f"EUR\\/USD 1m/{MONDAY}", "failed")]


@pytest.mark.parametrize(
    ("home", "link", "followed"),
    [
        ("https://api.polygon.io/a?limit=5", "https://api.polygon.io/b?cursor=x", True),
        ("https://api.polygon.io/a?limit=5", "https://api.massive.com/b?cursor=x", True),
        ("https://api.polygon.io/a?limit=5", "/b?cursor=x", True),
        ("https://api.polygon.io/a?limit=5", "https://api.polygon.io.evil.example/b?cursor=x", False),
        ("https://api.polygon.io/a?limit=5", "http://api.polygon.io/b?cursor=x", True),
        ("https://mirror.example/a?limit=5", "https://api.polygon.io/b?cursor=x", False),
    ],
)
def test_a_link_is_followed_on_the_own_host_alone(home, link, followed):
    # The service has two names; whichever a link has, the key goes to the one that was given.
    if followed:
        assert after(home, link, set()) == "https://api.polygon.io/b?limit=5&cursor=x"
    else:
        with pytest.raises(Unreadable, match="another site"):
            after(home, link, set())


ASKED = "https://api.polygon.io/v2/aggs/ticker/C:EURUSD/range/1/minute/1759708800000/1759795199999?limit=5"


@pytest.mark.parametrize(
    ("path", "followed"),
    [
        ("C:EURUSD/range/1/minute/1759750000000/1759795199999", True),
        ("C%3AEURUSD/range/1/minute/1759750000000/1759795199999", True),
        ("C:EURUSD/range/1/minute/1759750000000/2025-10-06", True),
        ("C:GBPUSD/range/1/minute/1759750000000/1759795199999", False),
        ("C:EURUSD/range/5/minute/1759750000000/1759795199999", False),
        ("C:EURUSD/range/1/day/1759750000000/1759795199999", False),
        ("C:EURUSD/range/1/minute/1759750000000/1759795200000", False),
        ("C:EURUSD/range/1/minute/1759708799999/1759795199999", False),
        ("C:EURUSD/range/1/minute/then/1759795199999", False),
        ("C:EURUSD/range/1/minute", False),
        ("x/ticker/C:EURUSD/range/1/minute/1759750000000/1759795199999", False),
    ],
)
def test_a_link_to_another_pair_length_or_time_is_not_followed(path, followed):
    link = f"https://api.polygon.io/v2/aggs/ticker/{path}?cursor=x"
    if followed:
        assert after(ASKED, link, set()) == f"{link.partition('?')[0]}?limit=5&cursor=x"
    else:
        with pytest.raises(Unreadable, match="about something else"):
            after(ASKED, link, set())


@pytest.mark.parametrize(
    "link", ["https://[::1/b", "https://mirror.example:x/b", "https://mirror.example:99999/b"]
)
def test_a_link_that_is_no_url_is_not_followed(link):
    with pytest.raises(Unreadable, match="is no URL"):
        after("https://mirror.example/a", link, set())


def test_a_chain_of_pages_ends_where_no_link_is_and_not_where_no_row_is():
    pages = {"http://h/1": Page([1], "/2"), "http://h/2": Page([], "/3"), "http://h/3": Page([3], None)}

    async def ask(url: str) -> Page:
        if url not in pages:
            raise Unreadable("it is gone")
        return pages[url]

    assert anyio.run(whole, "http://h/1", ask) == Shown([1, 3], None)
    del pages["http://h/3"]
    shown = anyio.run(whole, "http://h/1", ask)
    assert (shown.rows, str(shown.trouble)) == ([1], "it is gone")
