"""URLs of stores: what they open, and what is refused with a sentence before anything is opened."""

import pytest

from onefold.core.errors import Misconfigured
from onefold.drive import Inline, OneThread
from onefold.stores import aconnect, connect, ddl
from onefold.stores.memory import MemoryStore
from onefold.stores.sqlite import SqliteStore
from tests.fast.stores.sqlite.ledgers import NEW, inserts, tokens


@pytest.mark.store("sqlite")
@pytest.mark.parametrize(
    "name", ["ledger.db", "with space.db", "100%.db", "a#b?c.db", "żółw.db", "sub/../x.db"]
)
def test_a_file_is_opened_where_its_url_says(tmp_path, name):
    from urllib.parse import quote

    (tmp_path / "sub").mkdir()
    store = connect(f"sqlite:///{quote(str(tmp_path / name))}")
    store.swap(inserts([NEW]))

    assert (tmp_path / name).is_file()
    assert tokens(store, [NEW]) == {"ann"}


@pytest.mark.store("sqlite")
def test_a_relative_url_is_relative_to_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connect("sqlite:///ledger.db").swap(inserts([NEW]))

    assert (tmp_path / "ledger.db").is_file()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite:", "names no file: write sqlite:///relative.db or sqlite:////absolute.db"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:ledger.db", "names no file"),
        ("sqlite:/ledger.db", "names no file"),
        ("sqlite://host/ledger.db", "names no file"),
        ("sqlite:///:memory:", "a ledger in memory is memory:"),
        ("sqlite:///a#b.db", "write %23 if it belongs to the name of the file"),
        ("sqlite:///a.db?sync=full", "has an unknown option, or one twice: synchronous is the only one"),
        ("sqlite:///a.db?synchronous=full&synchronous=normal", "has an unknown option, or one twice"),
        ("sqlite:///a.db?synchronous=off", "synchronous is 'off': write full (the default) or normal"),
        ("sqlite:///a.db?synchronous", "synchronous is ''"),
        ("memory:?size=9", "says more than a store in memory can be told"),
        ("memory:/tmp/x", "says more than a store in memory can be told"),
        ("sqlit:///a.db", "'sqlit' names no store: did you mean sqlite?"),
        ("memroy:", "'memroy' names no store: did you mean memory?"),
        ("postgres://host/db", "did you mean postgresql?"),
        ("ftp://host", "'ftp' names no store: these are known: memory, sqlite"),
        ("ledger.db", "'ledger.db' names no store"),
        ("", "'' names no store"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_a_sentence(url, sentence):
    for way in (connect, aconnect):
        with pytest.raises(Misconfigured) as raised:
            way(url)
        assert sentence in str(raised.value)


@pytest.mark.parametrize("word", ["full", "normal", "NORMAL", "Full"])
@pytest.mark.store("sqlite")
def test_synchronous_can_be_chosen(tmp_path, word):
    store = connect(f"sqlite:///{tmp_path / 'ledger.db'}?synchronous={word}")
    assert isinstance(store, SqliteStore)

    assert store.query("PRAGMA synchronous") == [({"full": 2, "normal": 1}[word.lower()],)]
    assert store.query("PRAGMA journal_mode") == [("wal",)]


def test_both_colours_of_a_url_are_the_same_store(tmp_path):
    assert isinstance(connect("memory:"), MemoryStore)
    assert isinstance(aconnect("memory:"), Inline)
    awaited = aconnect(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert isinstance(awaited, OneThread)
    assert isinstance(awaited.store, SqliteStore)
    assert awaited.store.path == tmp_path / "ledger.db"


def test_the_schema_of_a_store_can_be_asked_for_without_connecting():
    assert ddl("memory:") == ""
    assert "CREATE TABLE onefold_entries" in ddl("sqlite:///not/there.db")
