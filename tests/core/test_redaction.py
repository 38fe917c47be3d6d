"""Keys in the paths of web addresses are hidden, and what only looks long is not."""

from __future__ import annotations

import logging

import pytest

from onefold.core.redaction import host_of, hosts_alone, safe_url, scrubbed

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
