"""A PostgreSQL store beside real life: what it promises beyond `relational/test_life.py`."""

from __future__ import annotations

from contextlib import closing

import pytest

from onefold import Key, Ledger, Terms
from onefold.core.errors import Unsettled
from tests.servers.stores.postgresql.ledgers import option
from tests.waiting import wait_for

pytestmark = pytest.mark.store("postgresql")

KEY = Key("life", 1)


def test_an_effect_whose_settling_is_refused_is_told_to_have_happened(postgresql_url, sql):
    with closing(Ledger(postgresql_url)) as ledger:

        def effect() -> str:
            sql("DROP TABLE onefold_entries CASCADE")
            return "sent"

        with pytest.raises(Unsettled) as raised:
            ledger.call(KEY, effect)

    assert (raised.value.ran, raised.value.receipt) == ("yes", "sent")


def test_a_database_with_another_isolation_by_default_changes_nothing(opened, postgresql_url):
    store = opened(option(postgresql_url, default_transaction_isolation="serializable"))
    [[level]] = store.ask("SELECT current_setting('transaction_isolation')")

    assert level == "read committed"


def test_heartbeats_keep_a_claim_alive_by_the_servers_clock(postgresql_url):
    terms = Terms(lease=3)  # which a machine that stands still for a moment does not outlast
    with closing(Ledger(postgresql_url)) as ledger, closing(Ledger(postgresql_url)) as rival:
        rival.look(KEY)
        claim = ledger.claim(KEY, effect="idempotent", terms=terms)
        first = ledger.look(KEY)
        assert first is not None
        wait_for(lambda: (now := ledger.look(KEY)) is not None and now.written > first.written + terms.lease)
        state = rival.claim(KEY, effect="idempotent", terms=terms).state
        claim.settle("done")

    assert state == "busy"
