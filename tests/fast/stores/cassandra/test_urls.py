"""Where a ledger on Cassandra is: what its URL may say, and what is wrong with others, without secrets."""

import pytest

from onefold.core.errors import Misconfigured

pytest.importorskip("cassandra", reason="cassandra-driver is not installed: it comes with the test servers")

from onefold.stores import ddl
from onefold.stores.cassandra.address import MAX_SKEW, PROTOCOL, TIMEOUT, Address, address
from onefold.stores.cassandra.schema import definitions, statements

ONE = (("h", 9042),)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("cassandra://h/shop", Address(ONE, "shop")),
        ("cassandra://h:9043/shop", Address((("h", 9043),), "shop")),
        ("cassandra://a,b:1,c/shop", Address((("a", 9042), ("b", 1), ("c", 9042)), "shop")),
        ("cassandra://[::1]:1,[fe80::1]/shop", Address((("::1", 1), ("fe80::1", 9042)), "shop")),
        ("cassandra://ann:a%40b@h/shop", Address(ONE, "shop", "ann", "a@b")),
        ("cassandra://h/shop?prefix=two", Address(ONE, "shop", prefix="two")),
        ("cassandra://h/shop?dc=east", Address(ONE, "shop", dc="east")),
        ("cassandra://h/shop?protocol_version=3", Address(ONE, "shop", protocol=3)),
        ("cassandra://h/shop?timeout=1.5&max_skew=5m", Address(ONE, "shop", timeout=1.5, max_skew=300.0)),
        ("cassandra://h/shop?max_skew=0", Address(ONE, "shop", max_skew=0.0)),
    ],
)
def test_a_url_says_where_and_how(url, expected):
    assert address(url) == expected


def test_what_a_url_does_not_say_has_a_default():
    plain = address("cassandra://h/shop")

    assert (plain.protocol, plain.timeout, plain.max_skew) == (PROTOCOL, TIMEOUT, MAX_SKEW) == (4, 10.0, 60.0)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("cassandra://h", "is no keyspace: write cassandra://host1,host2/keyspace"),
        ("cassandra://h/", "is no keyspace"),
        ("cassandra://h/shop/more", "is no keyspace"),
        ("cassandra://h/sh;op", "is no keyspace"),
        ("cassandra:///shop", "is no host"),
        ("cassandra://a,,b/shop", "is no host"),
        ("cassandra://h:0/shop", "is no host"),
        ("cassandra://h:99999/shop", "is no host"),
        ("cassandra://h:x/shop", "is no host"),
        ("cassandra://[h/shop", "cannot be read"),
        ("cassandra://h/shop?retry=1", "unknown option"),
        ("cassandra://h/shop?consistency=ONE", "unknown option"),
        ("cassandra://h/shop?prefix=a&prefix=b", "one twice"),
        ("cassandra://h/shop#x", "or a #"),
        ("cassandra://h/shop?prefix=a%22b", "cannot begin the name of a table"),
        ("cassandra://h/shop?dc=", "dc in the store's cassandra:// URL is empty"),
        ("cassandra://h/shop?protocol_version=2", "3, 4 and 5 are"),
        ("cassandra://h/shop?timeout=0", "timeout"),
        ("cassandra://h/shop?timeout=4000", "from 0.1 to 3600"),
        ("cassandra://h/shop?max_skew=soon", "max_skew in the store's URL"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_with_the_reason(url, sentence):
    with pytest.raises(Misconfigured) as raised:
        address(url)

    assert sentence in str(raised.value)


@pytest.mark.parametrize("url", ["cassandra://ann:hidden@/shop", "cassandra://ann:hidden@h/shop?x=1"])
def test_no_password_is_ever_in_a_sentence(url):
    with pytest.raises(Misconfigured) as raised:
        address(url)

    assert "hidden" not in str(raised.value)
    assert "hidden" not in address("cassandra://ann:hidden@h/shop").name


def test_every_statement_names_the_tables_of_its_ledger():
    where = address("cassandra://h/Shop?prefix=Two")

    for text in [*statements(where).values(), *definitions(where)]:
        assert '"Shop"."Two_' in text
        assert "{" not in text
        assert "--" not in text


def test_the_printed_schema_makes_the_tables_and_notes_their_version():
    text = ddl("cassandra:")

    assert [f"CREATE TABLE IF NOT EXISTS onefold_{name}" in text for name in ("entries", "open", "meta")]
    assert text.endswith("VALUES ('schema', '1') IF NOT EXISTS;\n")
    assert "NetworkTopologyStrategy" in text
