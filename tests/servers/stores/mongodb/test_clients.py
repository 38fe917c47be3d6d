"""What the MongoDB client is given, and names that a resolver looks up."""

from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")

from onefold import stores
from onefold.stores.mongodb.address import address
from onefold.stores.mongodb.client import Link


def test_a_client_is_told_all_of_it():
    with closing(Link(address("mongodb://db.invalid/shop?retryWrites=true&readPreference=nearest"))) as link:
        assert link.client.options.retry_writes is False
        assert link.client.write_concern.document == {"w": "majority", "j": True}
        assert link.client.read_preference.name == "Primary"


def test_a_name_that_a_service_looks_up_names_the_same_kind_of_store():
    store: Any = stores.connect("mongodb+srv://ann:hidden@cluster.example.org/shop?retryWrites=true")

    assert store.client.name == "mongodb at cluster.example.org/shop"
    assert stores.ddl("mongodb+srv:") == stores.ddl("mongodb:")
