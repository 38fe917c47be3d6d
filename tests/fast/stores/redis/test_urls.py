"""URLs of a Redis: what they say, what is refused with a sentence, and that no secret is ever repeated."""

import os
from typing import Any

import pytest

from onefold import stores
from onefold.core.errors import Misconfigured

pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

from onefold.stores.redis.address import VERIFIED, address


def test_a_url_says_where_the_server_is_and_who_asks():
    read = address("redis://ann:s%40fe@db.example.org:7000/3?prefix=shop&timeout=2")

    assert read.name == "redis at db.example.org:7000/3"
    assert (read.prefix, read.secure) == ("shop", False)
    assert read.settings == {
        "host": "db.example.org",
        "port": 7000,
        "db": 3,
        "username": "ann",
        "password": "s@fe",
        "socket_timeout": 2.0,
        "socket_connect_timeout": 1.0,
    }


def test_a_short_url_means_the_usual_server():
    read = address("redis://")

    assert (read.name, read.prefix) == ("redis at localhost:6379/0", "onefold")
    assert "password" not in read.settings
    assert read.settings["socket_timeout"], "nobody waits for ever"


@pytest.mark.parametrize(
    ("scheme", "secure"), [("redis", False), ("rediss", True), ("valkey", False), ("valkeys", True)]
)
def test_four_schemes_name_the_same_kind_of_store(scheme, secure):
    store: Any = stores.connect(f"{scheme}://db.example.org")

    assert store.client.address.secure is secure
    assert store.client.name == "redis at db.example.org:6379/0"
    assert stores.ddl(f"{scheme}://db.example.org") == stores.ddl("redis://")


def test_an_address_of_six_parts_is_read():
    assert address("redis://[::1]:7000").settings["host"] == "::1"


def test_a_secure_url_takes_the_names_of_files():
    read = address("rediss://db?ca=/etc/ca.pem&cert=me.pem&key=me.key")

    assert read.secure
    assert {name: value for name, value in read.settings.items() if name.startswith("ssl")} == VERIFIED | {
        "ssl_ca_certs": "/etc/ca.pem",
        "ssl_certfile": os.path.abspath("me.pem"),
        "ssl_keyfile": os.path.abspath("me.key"),
    }


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("redis://:hidden@db:port/0", "cannot be read"),
        ("redis://:hidden@db:70000/0", "cannot be read"),
        ("redis://:hidden@[::1/0", "cannot be read"),
        ("redis://:hidden@db/0?prefix", "cannot be read"),
        ("redis://:hidden@db/orders", "'orders' is no database of a Redis: it has a number"),
        ("redis://:hidden@db/-1", "is no database"),
        ("redis://:hidden@db/²", "is no database"),
        (
            "redis://:hidden@db/0?retry_on_timeout=yes",
            "an option 'retry_on_timeout'; known are prefix, timeout",
        ),
        ("redis://:hidden@db/0?ca=x.pem", "an option 'ca'"),
        ("redis://:hidden@db/0?prefix=a%7Bb", "without braces"),
        ("redis://:hidden@db/0?prefix=a%0Ab", "printable"),
        (f"redis://:hidden@db/0?prefix={'x' * 65}", "1 to 64"),
        ("redis://:hidden@db/0?timeout=0", "from 0.01 to 3600"),
        ("redis://:hidden@db/0?timeout=soon", "from 0.01 to 3600"),
        ("redis://:hidden@db/0?timeout=nan", "from 0.01 to 3600"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_a_sentence(url, sentence):
    with pytest.raises(Misconfigured) as raised:
        address(url)

    assert sentence in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None
