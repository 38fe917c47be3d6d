"""Asking a site: bounded in time and size, patient where that helps, and discreet."""

import gzip
import logging
import zlib
from functools import partial

import anyio
import pytest

from onefold.core.backoff import Backoff
from onefold.core.errors import Misconfigured
from onefold.core.wire import Unreadable
from onefold.runtime.http import retry_after, shown
from onefold.sources.poll import Poll
from onefold.sources.web import Manners, Refusing, Web, built, followed
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Response, Site
from tests.fast.missing import hide

QUICK = Manners(timeout=5, backoff=Backoff(0.001, 0.01), body_limit=10_000, patience=0.05)
KEY = "k3y-that-nobody-may-see"


def ask(site, *answers, manners=QUICK, read=lambda body: body, headers=None, query=""):
    """Ask a site that gives these answers in turn, the last one for ever."""
    turns = list(answers)
    site.routes = {("GET", "/x"): lambda request: turns.pop(0) if len(turns) > 1 else turns[0]}
    web = Web(f"{site.url}/x{query}", headers or {}, manners)

    return anyio.run(web.get, web.url, read)


def test_an_answer_is_parsed_and_read(site):
    assert ask(site, Response({"a": [1]}), read=lambda body: body["a"]) == [1]


def test_a_packed_answer_is_unpacked(site):
    packed = Response(gzip.compress(b"[1]"), headers={"Content-Encoding": "gzip"})

    assert ask(site, packed) == [1]
    assert ask(site, Response(zlib.compress(b"[2]"), headers={"Content-Encoding": "deflate"})) == [2]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_site_is_asked_again(site, status):
    assert ask(site, Response({}, status), Response({}, status), Response([1])) == [1]


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 410, 451])
def test_a_site_that_refuses_is_not_asked_again(site, status):
    with pytest.raises(Refusing, match=f"/x answered {status}: ") as refused:
        ask(site, Response({"error": "no"}, status), Response([1]))

    assert refused.value.status == status
    assert len(site.requests) == 1


def test_a_redirect_is_not_followed_because_the_headers_would_go_along(site):
    with pytest.raises(Refusing, match="it leads elsewhere"):
        ask(site, Response({}, 302, {"Location": "http://127.0.0.2/"}), headers={"Authorization": KEY})


@pytest.mark.parametrize("body", [b"<html>oops", b"[1", b"\xff\xfe", b"{'a': 1}"])
def test_an_answer_that_is_no_json_is_asked_for_again_and_then_said(site, body):
    assert ask(site, Response(body), Response([1])) == [1]
    with pytest.raises(Unreadable, match=r"/x answered, but it is no (JSON|UTF-8)"):
        ask(site, Response(body))


def test_what_the_reader_cannot_believe_is_asked_for_again():
    def read(body):
        if body == []:
            raise Unreadable("it is empty")
        return body

    with Site({}) as site:
        assert ask(site, Response([]), Response([1]), read=read) == [1]


@pytest.mark.parametrize("trick", ["cut-before", "cut-after", "half"])
def test_a_connection_that_breaks_is_tried_as_often_as_was_said_and_no_more(trick):
    with (
        Site({}, Mischief(rates={trick: 1.0})) as site,
        pytest.raises(Unreadable, match="/x could not be read"),
    ):
        ask(site, Response([1] * 100))

    assert len(site.requests) == QUICK.tries


def test_a_site_that_does_not_answer_in_time_is_given_up():
    with (
        Site({}, Mischief(rates={"stall": 1.0}, stall=10)) as site,
        pytest.raises(Unreadable, match="did not answer"),
    ):
        ask(site, Response([1]), manners=QUICK._replace(timeout=0.05, tries=2))


def test_an_answer_that_is_too_long_is_cut_off(site):
    with pytest.raises(Refusing, match="answered more than 10000 bytes: see body_limit="):
        ask(site, Response(b"0" * 20_000))


def test_a_compression_bomb_is_cut_off_before_it_unpacks(site):
    # 50 MB of zeros are 50 kB packed: one chunk on the wire.
    bomb = Response(gzip.compress(b"0" * 50_000_000), headers={"Content-Encoding": "gzip"})

    peaks: list[int] = []
    with pytest.raises(Refusing, match="answered more than 10000 bytes"):
        _traced(peaks, partial(ask, site, bomb))

    assert peaks[0] < 5_000_000


def _traced(peaks, act):
    import tracemalloc

    tracemalloc.start()
    try:
        act()
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
def test_an_answer_packed_otherwise_than_asked_is_refused(site, encoding):
    with pytest.raises(Unreadable, match="which was not asked for"):
        ask(site, Response(b"x", headers={"Content-Encoding": encoding}))


def test_what_cannot_be_unpacked_is_said(site):
    with pytest.raises(Unreadable, match="cannot be unpacked"):
        ask(site, Response(b"no gzip", headers={"Content-Encoding": "gzip"}))


# ----- waiting


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-7", 0.0),
        ("nan", None),
        ("1e12", None),
        ("soon", None),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0),
        ("Tue, 14 Nov 2023 22:13:10 PST", None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header, expected):
    assert retry_after(header, 1_700_000_000) == expected


def test_a_retry_after_is_obeyed_but_not_for_ever(site, caplog):
    busy = Response({}, 429, {"Retry-After": "86400"})

    assert ask(site, busy, Response([1])) == [1]
    assert "answered 429; again in 0.1 s" in caplog.text  # patience is 0.05 s in these tests


# ----- places and secrets


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:p@api.example:8443/v2/trades?apiKey=x#y", "https://api.example:8443/v2/trades"),
        ("https://api.example/v3/0123456789abcdef0123/logs", "https://api.example/v3/…/logs"),
    ],
)
def test_a_place_is_named_without_what_may_be_secret(url, expected):
    assert shown(url) == expected


def test_parameters_are_added_and_later_ones_win():
    url = built("http://h/p?a=1&b=&c=x#top", {"a": "2"}, {"d": "ü &"})

    assert url == "http://h/p?a=2&b=&c=x&d=%C3%BC+%26"


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("/p?cursor=2", "http://h:1/p?key=s&cursor=2"),
        ("?cursor=2", "http://h:1/p?key=s&cursor=2"),
        ("http://h:1/other?cursor=2&key=t", "http://h:1/other?key=t&cursor=2"),
    ],
)
def test_a_link_is_followed_with_our_key(link, expected):
    assert followed("http://h:1/p?key=s", link) == expected


@pytest.mark.parametrize(
    "link", ["http://evil/p", "https://h:1/p", "http://h:2/p", "//evil/p", "http://h@evil/p", "file:///etc/x"]
)
def test_a_link_to_another_site_is_not_followed(link):
    with pytest.raises(Unreadable, match="leads to another site"):
        followed("http://h:1/p", link)


@pytest.mark.parametrize(
    "answer", [Response({"you sent": KEY}, 400), Response(KEY.encode()), Response({}, 500)]
)
def test_no_secret_reaches_an_error_or_a_log(site, caplog, answer):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Unreadable) as error:
        ask(site, answer, headers={"Authorization": f"Bearer {KEY}"}, query=f"?apiKey={KEY}&x=1")

    assert KEY not in f"{error.value!r} {error.value}"
    assert KEY not in caplog.text
    assert any("HTTP Request" in line for line in caplog.messages), "the library logs, and is made discreet"


@pytest.mark.parametrize("url", ["ftp://h/x", "trades", "http:///x", ""])
def test_a_url_of_no_web_site_is_refused(url):
    with pytest.raises(Misconfigured, match="write http://"):
        Web(url, {}, QUICK)


def test_a_missing_library_is_said_with_the_command_that_installs_it(monkeypatch):
    hide(monkeypatch, "httpx2")

    with pytest.raises(Misconfigured, match=r'needs httpx2: pip install "onefold\[worker\]"'):
        Poll("http://h/x", id="id")
