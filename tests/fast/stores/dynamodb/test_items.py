"""Entries as items: every value comes back as the same one, and only open entries are in the index."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from onefold.core.entry import EFFECTS, STATES, Entry, due
from onefold.core.errors import Misconfigured
from onefold.core.key import Key

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import items

KEY = Key("charges", "A-17")
moments = some.floats(min_value=0, max_value=4e10, allow_subnormal=False)
texts = some.text(max_size=20)

entries = some.builds(
    Entry,
    state=some.sampled_from(STATES),
    why=some.sampled_from([None, "in-doubt", "failed", "by-hand", "beyond-memory"]),
    token=texts,
    version=some.integers(0, 2**53),
    fence=some.integers(0, 2**53),
    effect=some.sampled_from(EFFECTS),
    begun=some.none() | moments,
    lease=moments,
    written=moments,
    attempt=some.integers(0, 10**6),
    not_before=some.none() | moments,
    expires=some.none() | moments,
    fingerprint=some.none() | texts,
    label=texts,
    source=texts,
    body=some.none() | texts,
)


@given(entries)
def test_an_item_reads_as_the_entry_that_was_written(entry):
    item = items.item(KEY, entry)

    assert items.entry(item) == entry
    assert (items.key(item).id, items.key(item).scope) == (KEY.id, KEY.scope)
    assert items.key(item).label == entry.label


@given(entries)
def test_an_item_is_in_the_index_while_it_is_open_and_expires_only_when_done(entry):
    item = items.item(KEY, entry)

    assert ("open" in item, "due" in item) == (entry.state != "done",) * 2
    assert ("ttl" in item) == (entry.state == "done" and entry.expires is not None)
    if "due" in item:
        assert float(item["due"]["N"]) == due(entry)
        assert item["open"]["S"].startswith(f"{entry.state}/")


@pytest.mark.parametrize("expires", [1_700_000_000.0, 1_700_000_000.000001, 1_700_000_000.999999])
def test_dynamodbs_own_expiry_is_in_whole_seconds_and_a_day_later(expires):
    told = items.item(KEY, Entry("done", expires=expires))["ttl"]["N"]

    assert told.isdigit()
    assert int(told) == math.ceil(expires) + 86_400


def test_numbers_are_written_shortly_and_exactly():
    assert items.number(0.1) == {"N": "0.1"}
    assert items.number(1_700_000_000.000001) == {"N": "1700000000.000001"}
    assert items.number(2**53 - 1) == {"N": "9007199254740991"}


@pytest.mark.parametrize("field", ["token", "fingerprint", "label", "source", "body"])
def test_a_text_that_would_be_stored_as_another_is_refused(field):
    broken: dict[str, Any] = {field: "\ud800"}

    with pytest.raises(Misconfigured, match=f"{field} of an entry is not valid Unicode"):
        items.item(KEY, Entry("held", **broken))


def test_entries_are_spread_over_all_parts_of_the_index():
    found = {items.item(Key("charges", n), Entry("held"))["open"]["S"] for n in range(200)}

    assert found == {f"held/{n}" for n in range(items.SHARDS)}
