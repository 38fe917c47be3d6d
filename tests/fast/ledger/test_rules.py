"""The rules of safety, by their number in the design; rule 14 comes with the worker and its retractions."""

from __future__ import annotations

import pytest

from onefold import CannotHappen, Happened, Key, Ledger, Refused, Terms
from onefold.core import claims
from onefold.core.claims import Bid, Ending, Hold
from onefold.core.coverage import judge
from onefold.core.cursor import Cursor, advance, start
from onefold.core.errors import LostClaim, Unreachable
from onefold.core.protocol import acquire, answer_probe, begin, claim, end, purge, renew
from onefold.drive import Ports, run
from tests.fast.ledger.doors import Blocking, Losing, stored

KEY = Key("rules", 1)


def won(store, token="ann", **more):
    """Win the key with a flow and return what is held."""
    bid = Bid(KEY, token, more.pop("terms", Terms()), **more)
    [answer] = run(claim([bid]), Ports(store))
    assert answer.state == "won"
    assert answer.entry is not None
    return Hold(KEY, token, answer.entry, answer.since)


def test_rule_1_the_outcome_is_read_from_the_entry_not_from_the_call(store):
    losing = Losing(store)
    losing.lose = 1

    outcome = Blocking(losing).call(KEY, lambda: "ran")

    assert outcome.state == "ran"


def test_rule_1_repeating_a_claim_with_the_same_token_never_renews_it(store, time):
    first = won(store)
    time.now += 30

    again = won(store)

    assert again.entry == first.entry


def test_rule_2_losing_is_a_reply_and_the_loser_writes_nothing(door):
    door.do(door.ledger.claim(KEY))
    before = stored(door.store, KEY)

    assert door.do(door.ledger.claim(KEY)).state == "busy"
    assert stored(door.store, KEY) == before


def test_rule_3_a_take_over_waits_for_the_whole_lease_and_swaps_on_the_version_it_saw(store, time):
    won(store, effect="idempotent")
    time.now += 59.999
    early = run(acquire(Bid(KEY, "bob", Terms(), "idempotent")), Ports(store))
    time.now += 0.002
    [first] = store.get([KEY])
    winner = run(acquire(Bid(KEY, "bob", Terms(), "idempotent")), Ports(store))
    [stale] = store.swap([claims.claim(Bid(KEY, "cid", Terms(), "idempotent"), first)])

    assert (early.state, winner.state) == ("busy", "won")
    assert stale.entry.token == "bob"


def test_rule_4_a_holder_that_was_renewed_behind_its_back_adopts_the_version_and_settles(store):
    hold = won(store)
    run(renew([hold]), Ports(store))

    [answer] = run(end([(hold, Ending("returned", "1"), Terms())]), Ports(store))

    assert answer.state == "settled"


def test_rule_4_release_writes_free_and_never_deletes(door):
    claim_ = door.do(door.ledger.claim(KEY))
    fence = claim_.fence
    door.do(claim_.release())

    assert (stored(door.store, KEY).state, stored(door.store, KEY).version > fence) == ("free", True)


def test_rule_5_a_one_shot_is_begun_before_its_effect_and_only_a_begun_one_is_parked(store, time):
    won(store, begin=False)
    time.now += 60
    taken = won(store, "bob", begin=False)
    attempt_before = stored(store, KEY).attempt
    run(begin(taken, '"prepared"'), Ports(store))
    time.now += 60

    answer = run(acquire(Bid(KEY, "cid", Terms())), Ports(store))

    assert (attempt_before, stored(store, KEY).attempt, stored(store, KEY).body) == (0, 1, '"prepared"')
    assert answer.state == "parked"


def test_rule_6_a_parked_one_shot_keeps_its_holders_token_until_somebody_resolves_it(door, time):
    holder = door.do(door.ledger.claim(KEY))
    time.now += 60
    door.call(KEY, lambda: 1)
    token = stored(door.store, KEY).token
    door.do(door.ledger.resolve(KEY, happened=True, by="ops"))

    assert token == holder.token
    with pytest.raises(LostClaim):
        door.do(holder.settle())


def test_rule_7_a_probes_answer_is_a_swap_on_the_parked_version(store, time):
    hold = won(store)
    run(end([(hold, Ending("raised"), Terms())]), Ports(store))
    asked = stored(store, KEY)
    run(end([(hold, Ending("returned", '"late"'), Terms())]), Ports(store))

    answer = run(answer_probe(KEY, asked, "probe", CannotHappen(), None), Ports(store))

    assert answer.state == "lost"
    assert stored(store, KEY).body == '"late"'


def test_rule_7_not_found_is_unknown_and_changes_nothing(door, time):
    door.do(door.ledger.claim(KEY))
    time.now += 60
    door.call(KEY, lambda: 1)
    before = stored(door.store, KEY)

    assert door.call(KEY, lambda: 1, probe=lambda: None).state == "parked"
    assert stored(door.store, KEY) == before
    assert door.call(KEY, lambda: 1, probe=lambda: Happened(2)).receipt == 2


def test_rule_8_joined_is_one_write_straight_to_done(store):
    bid = Bid(KEY, "ann", Terms(), "joined")

    [answer] = run(claim([bid]), Ports(store))

    assert (answer.state, stored(store, KEY).state) == ("won", "done")


def test_rule_9_past_its_window_a_keyed_effect_is_treated_as_one_shot(door, time):
    door.do(door.ledger.claim(KEY, effect="keyed", window="5m"))
    time.now += 299

    assert door.call(KEY, lambda: 1, effect="keyed", window="5m").state == "parked"


def test_rule_9_the_stricter_of_holder_and_contender_decides(door, time):
    door.do(door.ledger.claim(KEY, effect="one-shot"))
    time.now += 60

    assert door.call(KEY, lambda: 1, effect="idempotent").state == "parked"


def test_rule_10_busy_done_and_unknown_are_three_answers(store):
    losing = Losing(store)
    door = Blocking(losing)
    holder = door.ledger.claim(KEY)
    busy = door.call(KEY, lambda: 1).state
    holder.settle()
    done = door.call(KEY, lambda: 1).state
    losing.lose = 1000

    with pytest.raises(Unreachable, match="did not answer"):
        door.call(Key("rules", 2), lambda: 1)

    assert (busy, done) == ("busy", "done")


def test_rule_11_only_done_entries_expire_and_only_if_keep_says_so(store, time):
    ledger = Ledger(store)
    ledger.call(Key("rules", "kept"), lambda: 1, terms=Terms(keep="1h"))
    ledger.call(Key("rules", "forever"), lambda: 1)
    ledger.claim(Key("rules", "held"), terms=Terms(keep="1h"))
    with pytest.raises(Refused):
        ledger.call(Key("rules", "free"), _refuse, terms=Terms(keep="1h"))
    time.now += 1e6

    assert run(purge(), Ports(store)) == 1
    assert ledger.look(Key("rules", "kept")) is None
    assert all(ledger.look(Key("rules", name)) for name in ("forever", "held", "free"))


def test_rule_11_a_fence_never_restarts_not_even_after_a_purge(store, time):
    ledger = Ledger(store)
    ledger.call(KEY, lambda: 1, terms=Terms(keep="1h"))
    before = stored(store, KEY).version
    time.now += 3600
    run(purge(), Ports(store))

    assert ledger.claim(KEY).fence > before


def _refuse() -> None:
    raise Refused("no")


def test_rule_12_a_cursor_stops_at_what_is_open_and_pages_start_before_it():
    assert advance(Cursor(5), [(7, "done"), (8, "open"), (9, "done")]) == Cursor(8)
    assert start(Cursor(8), lag=3) == 5


def test_rule_13_a_short_count_an_empty_answer_and_an_open_end_are_states_of_their_own():
    assert [judge(*seen) for seen in ((59, 60, True), (0, None, True), (60, 60, False))] == [
        "partial",
        "empty",
        "provisional",
    ]


def test_rule_15_without_the_store_no_effect_starts(tmp_path):
    ran = []
    ledger = Ledger(f"sqlite:///{tmp_path}/o.db")
    ledger.look(KEY)
    ledger.close()
    (tmp_path / "o.db").write_bytes(b"not a database any more")

    with pytest.raises(Exception, match="not an SQLite database"):
        ledger.call(KEY, lambda: ran.append(1))

    assert ran == []


def test_rule_16_a_poison_key_never_blocks_its_neighbours(door, time):
    poison, good = Key("rules", "poison"), Key("rules", "good")
    for _ in range(3):
        with pytest.raises(Refused):
            door.call(poison, _refuse, terms=Terms(attempts=3))
        time.now += 100

    assert door.call(good, lambda: 1).state == "ran"
    assert stored(door.store, poison).why == "failed"
