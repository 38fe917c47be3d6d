"""Keys in the paths of web addresses are hidden, and what only looks long is not."""

from __future__ import annotations

import logging

import pytest

from onefold.core.errors import Misconfigured
from onefold.core.redaction import (
    breaks_in_login,
    check_login,
    host_of,
    hosts_alone,
    is_web,
    safe_url,
    scrubbed,
)

KEY = "aB3dE5fG7hJ9kL1mN3pQ5rS7"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"wss://node.example/v2/{KEY}", "wss://node.example/v2/***"),
        (f"https://node.example/{KEY}/rpc?limit=5", "https://node.example/***/rpc?limit=5"),
        (f"https://chat.example/bot12345:{KEY}/sendMessage", "https://chat.example/***/sendMessage"),
        (f"failed: wss://node.example/v2/{KEY}, again", "failed: wss://node.example/v2/***, again"),
        (f"wss://{KEY}.example.org/feed", f"wss://{KEY}.example.org/feed"),
        (
            "https://api.example/v2/trades/by-market-and-maker",
            "https://api.example/v2/trades/by-market-and-maker",
        ),
        ("https://api.example/12345678901234567890", "https://api.example/12345678901234567890"),
        (f"sqlite:////srv/{KEY}.db", f"sqlite:////srv/{KEY}.db"),
    ],
)
def test_a_key_in_a_path_is_hidden(text, shown):
    assert scrubbed(text) == shown


def test_one_address_alone_is_hidden_in_the_same_way():
    assert safe_url(f"wss://ann:pw@node.example/{KEY}?token=x") == "wss://***@node.example/***?token=***"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:p@api.example:8443/bot1:key/send?token=x#y", "https://api.example:8443"),
        ("http://127.0.0.1/short", "http://127.0.0.1"),
        ("http://[::1", "an address that is no URL"),
    ],
)
def test_an_address_is_named_by_its_host_alone(url, expected):
    assert host_of(url) == expected


class URL(str):
    """What an HTTP client hands to its logger."""


def test_a_clients_log_names_hosts_alone_however_often_it_is_filtered():
    line = logging.LogRecord("client", 20, "", 1, "%s %s", ("GET", URL("https://h/bot1:key/send")), None)
    assert hosts_alone(line)
    assert hosts_alone(line)

    assert line.getMessage() == "GET https://h"
    line.args = {"url": "kept"}
    assert hosts_alone(line)
    assert line.args == {"url": "kept"}


def test_an_address_whose_path_has_an_at_sign_is_named_in_full():
    assert not breaks_in_login("https://social.example/@ann")
    assert host_of("https://social.example/@ann") == "https://social.example"
    assert host_of("https://ann:12/34@web.example") == "https://***"


def test_a_login_with_several_at_signs_is_for_readers_that_part_it_at_the_last():
    check_login("redis://ann:p@ss@db", "the URL", several=True)
    with pytest.raises(Misconfigured, match="the URL cannot be read, because it has an @ in a wrong place"):
        check_login("postgresql://ann:p@ss@db", "the URL")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:p@ss/w@db/app", "postgresql://***@db/app"),
        ("ann:secret@db/app", "***@db/app"),
        ("sqlite:rel@tive.db", "sqlite:rel@tive.db"),
    ],
)
def test_all_before_the_last_at_sign_is_hidden(url, shown):
    assert safe_url(url) == shown


def test_a_url_that_a_text_quotes_is_hidden_even_with_blanks_and_quotes_in_its_password():
    url = "postgresql://ann:my 'secret@db/app"

    assert scrubbed(f"no: {url} or {url!r}", url) == (
        'no: postgresql://***@db/app or "postgresql://***@db/app"'
    )


@pytest.mark.parametrize(
    ("url", "web"),
    [("https://host/path", True), ("http://host:80", True), ("ftp://host", False), ("http:///path", False)],
)
def test_a_web_url_has_a_scheme_and_a_host(url, web):
    assert is_web(url, "the URL") is web


def test_a_web_url_that_cannot_be_read_is_refused_and_not_quoted():
    with pytest.raises(Misconfigured) as raised:
        is_web("https://ann:secret/word@host/", "the URL of the feed")

    assert str(raised.value) == (
        "the URL of the feed cannot be read: write @ : / ? # in a password as %40 %3A %2F %3F %23"
    )
