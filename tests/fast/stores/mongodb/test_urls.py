"""URLs of a MongoDB: what they say, what is refused with a sentence, and that no secret is ever repeated."""

import pytest

from onefold.core.errors import Misconfigured

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold.stores.mongodb.address import address


def test_a_url_says_where_the_servers_are_and_which_database():
    read = address("mongodb://ann:s%40fe@a.example.org:7000,b.example.org/shop?replicaSet=rs0")

    assert read.name == "mongodb at a.example.org:7000,b.example.org:27017/shop"
    assert read.database == "shop"
    assert "s@fe" not in str(read.settings)


def test_a_short_url_means_the_usual_database_and_waits_for_a_majority():
    read = address("mongodb://localhost")

    assert read.name == "mongodb at localhost:27017/onefold"
    assert (read.settings["w"], read.settings["journal"]) == ("majority", True)
    waits = [name for name in read.settings if name.endswith("TimeoutMS")]
    assert len(waits) == 4, "nobody waits for ever"


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://db/?retryWrites=true&retryReads=true",
        "mongodb://db/?readPreference=secondary",
        "mongodb+srv://db.example.org/shop?retryWrites=true&w=majority",
    ],
)
def test_no_option_lets_the_driver_repeat_a_command_or_ask_who_may_be_behind(url):
    settings = address(url).settings

    assert (settings["retryWrites"], settings["retryReads"]) == (False, False)
    assert settings["readPreference"] == "primary"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mongodb://db/?w=1", {"journal": True}),
        ("mongodb://db/?W=1&journal=false", {}),
        ("mongodb+srv://db.example.org/?w=1", {"journal": True}),
    ],
)
def test_what_a_url_says_of_safety_is_left_to_it(url, told):
    settings = address(url).settings

    assert {name: settings[name] for name in ("w", "journal") if name in settings} == told


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mongodb://", "cannot be read"),
        ("mongodb://ann:hidden@db:port/shop", "cannot be read"),
        ("mongodb://ann:hidden@db:70000/shop", "cannot be read"),
        ("mongodb://ann:hid@den@db/shop", "cannot be read"),
        ("mongodb://ann:hidden@db/shop.orders", "names a collection: name a database"),
        ("mongodb://ann:hidden@db/local", "the database local is the server's own"),
        ("mongodb+srv://ann:hidden@db.example.org/admin", "the database admin is the server's own"),
        ("mongodb://ann:hidden@db/shop?w=0", "w=0 in the store's mongodb:// URL lets no write be answered"),
        ("mongodb+srv://ann:hidden@db.example.org/shop?w=0", "w=0"),
        ("mongodb://ann:hidden@db/shop?retries=5", "has an unknown option retries"),
        ("mongodb://ann:hidden@db/shop?w", "cannot be read"),
        ("mongodb://ann:hidden@db/shop?journal=perhaps", "cannot be read"),
        ("mongodb://ann:hidden@a,b/shop?directConnection=true", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_a_sentence(url, sentence):
    with pytest.raises(Misconfigured) as raised:
        address(url)

    assert sentence in str(raised.value)
    assert "hid" not in str(raised.value)
    assert raised.value.__cause__ is None
