"""The four scenarios of the two-phase ledger, and the traps that its first design fell into."""

from __future__ import annotations

import pytest

from onefold import Key, Terms
from onefold.core.claims import Bid, Ending, Hold
from onefold.core.errors import LostClaim
from onefold.core.protocol import acquire, claim, end, renew
from onefold.drive import Merged, Ports, run
from tests.fast.ledger.doors import Losing, stored

KEY = Key("signals", "id-1", "processor-1")
EFFECTS = ["one-shot", "keyed", "idempotent"]


def test_never_seen_runs(door):
    outcome = door.call(KEY, lambda: "sent")

    assert (outcome.state, outcome.receipt) == ("ran", "sent")
    assert stored(door.store, KEY).state == "done"


def test_done_is_not_run_again_and_the_receipt_is_returned(door):
    ran = []
    door.call(KEY, lambda: "sent")

    outcome = door.call(KEY, lambda: ran.append(1))

    assert (outcome.state, outcome.receipt, ran) == ("done", "sent", [])


@pytest.mark.parametrize("effect", EFFECTS)
def test_in_progress_is_busy_and_the_loser_writes_nothing(door, effect):
    door.do(door.ledger.claim(KEY, effect=effect))
    before = stored(door.store, KEY)

    outcome = door.call(KEY, lambda: "twice", effect=effect)

    assert outcome.state == "busy"
    assert 0 < outcome.wait <= 60
    assert stored(door.store, KEY) == before


@pytest.mark.parametrize("effect", ["keyed", "idempotent"])
def test_after_the_lease_a_repeatable_effect_is_taken_over(door, time, effect):
    first = door.do(door.ledger.claim(KEY, effect=effect))
    time.now += 60

    outcome = door.call(KEY, lambda: "sent", effect=effect)

    assert outcome.state == "ran"
    assert outcome.entry is not None
    assert (outcome.entry.attempt, outcome.entry.fence > first.fence) == (2, True)


def test_after_the_lease_a_begun_one_shot_is_parked_not_run(door, time):
    ran = []
    door.do(door.ledger.claim(KEY))
    time.now += 60

    outcome = door.call(KEY, lambda: ran.append(1))

    assert (outcome.state, ran) == ("parked", [])
    assert stored(door.store, KEY).why == "in-doubt"


def test_after_the_lease_a_one_shot_that_had_not_begun_is_taken_over(store, time):
    ports = Ports(store)
    run(claim([Bid(KEY, "ann", Terms(), begin=False)]), ports)
    time.now += 60

    answer = run(acquire(Bid(KEY, "bob", Terms())), ports)

    assert answer.state == "won"


def test_a_thousand_impatient_contenders_do_not_prolong_a_dead_holders_lease(door, time):
    door.do(door.ledger.claim(KEY, effect="idempotent"))
    before = stored(door.store, KEY)

    for _ in range(1000):
        time.now += 0.0599
        assert door.call(KEY, lambda: "too early", effect="idempotent").state == "busy"
    untouched = stored(door.store, KEY)
    time.now += 0.2

    assert untouched == before
    assert door.call(KEY, lambda: "sent", effect="idempotent").state == "ran"


@pytest.mark.parametrize("act", ["settle", "release", "park"])
def test_a_stale_holder_cannot_settle_release_or_park_what_was_taken_over(door, time, act):
    stale = door.do(door.ledger.claim(KEY, effect="idempotent"))
    time.now += 60
    fresh = door.do(door.ledger.claim(KEY, effect="idempotent"))
    before = stored(door.store, KEY)

    with pytest.raises(LostClaim):
        door.do(getattr(stale, act)())

    assert stored(door.store, KEY) == before
    door.do(fresh.settle("mine"))
    assert door.do(door.ledger.claim(KEY)).receipt == "mine"


def test_a_stale_holder_cannot_renew_what_was_taken_over(door, time):
    stale = door.do(door.ledger.claim(KEY, effect="idempotent"))
    time.now += 60
    door.do(door.ledger.claim(KEY, effect="idempotent"))
    before = stored(door.store, KEY)

    [answer] = run(renew([stale.pulse.hold]), Ports(door.store))

    assert answer.state == "lost"
    assert stored(door.store, KEY) == before


def test_a_live_holder_whose_heartbeats_reply_was_lost_still_settles(store):
    losing = Losing(store)
    ports = Ports(Merged(losing))
    bid = Bid(KEY, "ann", Terms())
    won = run(acquire(bid), ports)
    hold = Hold(bid.key, bid.token, won.entry or stored(store, KEY), won.since)
    losing.lose = 1

    run(renew([hold]), ports)
    [answer] = run(end([(hold, Ending("returned", "1"), Terms())]), ports)

    assert answer.state == "settled"
    assert stored(store, KEY).state == "done"


def test_many_keys_are_claimed_and_settled_in_the_order_given(door):
    keys = [Key("many", n) for n in range(1, 200)]
    door.call(keys[7], lambda: "before")

    claims = door.do(door.ledger.claim_many(keys))
    lost = door.do(door.ledger.settle_many([(one, str(one.key)) for one in claims if one.won]))

    assert [one.key for one in claims] == keys
    assert [one.state for one in claims] == ["done" if at == 7 else "won" for at in range(len(keys))]
    assert lost == []
    assert door.do(door.ledger.claim(keys[3])).receipt == "many/4"


def test_many_keys_can_be_given_back(door):
    claims = door.do(door.ledger.claim_many([Key("many", n) for n in range(1, 20)]))

    assert door.do(door.ledger.release_many(claims, "shutting down")) == []
    assert door.call(Key("many", 5), lambda: "later").state == "ran"


def test_settling_many_returns_those_that_were_lost(door, time):
    claims = door.do(door.ledger.claim_many([Key("many", n) for n in range(1, 4)], effect="idempotent"))
    time.now += 60
    door.call(Key("many", 2), lambda: "other", effect="idempotent")

    lost = door.do(door.ledger.settle_many([(one, "mine") for one in claims]))

    assert [one.key for one in lost] == [Key("many", 2)]
    assert door.do(door.ledger.claim(Key("many", 2))).receipt == "other"


def test_a_claim_that_was_given_back_can_be_won_at_once(door):
    first = door.do(door.ledger.claim(KEY))
    door.do(first.release("the other source may win"))

    assert door.do(door.ledger.claim(KEY)).won


def test_whoever_waits_gets_the_others_receipt(door):
    holder = door.do(door.ledger.claim(KEY))
    looked = []

    class Watching:
        """Settles the key while somebody waits for it."""

        def __init__(self, store):
            self._store = store

        def get(self, keys):
            looked.append(keys)
            if len(looked) == 2:
                run(end([(holder.pulse.hold, Ending("returned", '"theirs"'), Terms())]), Ports(door.store))
            return self._store.get(keys)

        def __getattr__(self, name):
            return getattr(self._store, name)

    waiting = type(door)(Watching(door.store))
    outcome = waiting.call(KEY, lambda: "mine", wait=30)
    waiting.close()

    assert (outcome.state, outcome.receipt) == ("done", "theirs")
