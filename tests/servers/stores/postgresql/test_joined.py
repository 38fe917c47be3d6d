"""Joined on PostgreSQL in particular: tables are made inside the caller's transaction, and go back with it.

What is promised on every server stands in `tests/servers/stores/test_joined.py`.
"""

from __future__ import annotations

import pytest

from onefold import Key, Ledger

pytestmark = pytest.mark.store("postgresql")

KEY = Key("joined", 1)


def test_effect_and_mark_roll_back_together_and_so_do_the_tables(caller, flats, sql):
    ledger = Ledger.on(caller.connection)
    ledger.call(KEY, lambda: caller.insert(1))

    caller.rollback()

    assert sql("SELECT to_regclass('onefold_entries')") == [(None,)]
    assert ledger.call(KEY, lambda: caller.insert(1)).state == "ran"
    caller.commit()
    assert flats() == [1]


def test_two_callers_who_make_the_tables_at_once_do_not_fail(caller, other, flats):
    Ledger.on(other).call(Key("joined", "tables"), lambda: None)
    ledger = Ledger.on(caller.connection)
    caller.insert(1)

    busy = ledger.call(KEY, lambda: caller.insert(2)).state
    other.commit()

    assert busy == "busy"
    assert ledger.call(KEY, lambda: caller.insert(3)).state == "ran"
    caller.commit()
    assert flats() == [1, 3]
