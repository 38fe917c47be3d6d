"""The flows on the memory store, with replies lost, calls refused and callers cancelled at chosen moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core.audit import LIMIT, acts, audit_key, note
from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import UNKNOWN, Change, Entry, Reply, Seen
from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.core.key import Key
from onefold.core.operate import resolve, retry
from onefold.core.protocol import (
    TRIES,
    acquire,
    answer_probe,
    begin,
    claim,
    decide,
    end,
    note_failure,
    purge,
    renew,
)
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore

KEY = Key("flows", 1)
TERMS = Terms(lease=60, keep="1d", attempts=3)


class Cancelled(BaseException):
    """Stands for a cancellation."""


class World:
    """A memory store and a clock, both standing still, and a script of what goes wrong at which swap."""

    def __init__(self, **script: str) -> None:
        self.now = 1_700_000_000.0
        self.monotonic_now = 0.0
        self.memory = MemoryStore(lambda: self.now)
        self.script = {int(at.removeprefix("at_")): what for at, what in script.items()}
        self.swaps: list[list[Change]] = []
        self.between: Callable[[], Any] | None = None

    # the store

    def get(self, keys: Sequence[Key]) -> Sequence[Seen]:
        return self.memory.get(keys)

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        self.swaps.append(list(changes))
        what = self.script.get(len(self.swaps), "")
        if what == "refuse":
            raise Unreachable("refused")
        if what == "lock":
            raise Locked("somebody else writes")
        if what == "lose-request":
            return [UNKNOWN] * len(changes)
        replies = self.memory.swap(changes)
        if what == "slow":
            self.monotonic_now += 1000.0
        if what == "cancel":
            raise Cancelled
        return [UNKNOWN] * len(changes) if what == "lose-reply" else replies

    def scan(self, *args: Any) -> Any:
        return self.memory.scan(*args)

    def close(self) -> None: ...

    # the clock

    def monotonic(self) -> float:
        return self.monotonic_now

    def sleep(self, seconds: float) -> None:
        self.monotonic_now += seconds
        self.now += seconds
        if self.between:
            self.between()

    # looking from outside

    def run(self, flow: Any) -> Any:
        return run(flow, Ports(self, self))

    def entry(self, key: Key = KEY) -> Entry:
        [seen] = self.memory.get([key])
        assert seen.entry is not None
        return seen.entry

    def hold(self, token: str = "ann", **more: Any) -> Hold:
        """Win the key and return what is held."""
        bid = Bid(KEY, token, TERMS, **more)
        [answer] = run(claim([bid]), Ports(self.memory, self))
        assert answer.state == "won"
        assert answer.entry is not None
        return Hold(KEY, token, answer.entry, answer.since)


def bid(token: str = "ann", key: Key = KEY, **more: Any) -> Bid:
    return Bid(key, token, TERMS, **more)


# ----- unknown is never turned into another answer


@pytest.mark.parametrize("what", ["lose-request", "lose-reply"])
def test_a_claim_whose_reply_was_lost_is_asked_again_with_the_same_token(what):
    world = World(at_1=what)

    [answer] = world.run(claim([bid()]))

    assert (answer.state, world.entry().token, world.entry().attempt) == ("won", "ann", 1)
    assert world.swaps[0] == world.swaps[1]


def test_repeating_a_claim_never_renews_it():
    world = World(at_1="lose-reply")
    started = world.now

    world.run(claim([bid()]))

    assert world.entry().written == started


def test_a_lease_counts_from_before_the_first_unanswered_send():
    world = World(at_1="lose-reply", at_2="lose-reply")

    [answer] = world.run(claim([bid()]))

    assert answer.since == 0.0
    assert world.monotonic_now > 0


def test_a_claim_that_stays_unknown_is_an_error_and_gives_back_what_it_may_have_won():
    other = Key("flows", 2)
    lost = {f"at_{n}": "lose-reply" for n in range(1, TRIES + 1)}
    world = World(**lost)

    with pytest.raises(Unreachable, match="did not answer 2 of 2 claims"):
        world.run(claim([bid(), bid(key=other)]))

    assert (world.entry().state, world.entry(other).state) == ("free", "free")
    assert world.entry().attempt == 0


def test_a_settle_that_stays_unknown_is_said_to_be_so():
    world = World(**{f"at_{n}": "lose-request" for n in range(1, TRIES + 1)})
    hold = world.hold()

    [answer] = world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert (answer.state, world.entry().state, len(world.swaps)) == ("unknown", "held", TRIES)


def test_a_settle_whose_reply_was_lost_is_settled_once():
    world = World(at_1="lose-reply")
    hold = world.hold()

    [answer] = world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert (answer.state, world.entry().version) == ("settled", hold.entry.version + 1)


# ----- refused and cancelled


def test_a_store_that_refuses_is_no_claim():
    world = World(at_1="refuse")

    with pytest.raises(Unreachable, match="refused"):
        world.run(claim([bid()]))

    assert world.memory.get([KEY])[0].entry is None


def test_a_cancelled_claim_is_given_back_and_the_cancellation_goes_on():
    world = World(at_1="cancel")

    with pytest.raises(Cancelled):
        world.run(claim([bid()]))

    assert (world.entry().state, world.entry().attempt) == ("free", 0)


def test_a_cancelled_claim_gives_back_only_what_is_its_own():
    world = World(at_1="cancel")
    world.hold("bob")
    before = world.entry()

    with pytest.raises(Cancelled):
        world.run(claim([bid()]))

    assert world.entry() == before


def test_a_dead_store_does_not_hide_the_cancellation():
    world = World(at_1="cancel", at_2="refuse")

    with pytest.raises(Cancelled):
        world.run(claim([bid()]))


def test_a_dead_store_does_not_hide_that_a_settle_was_cancelled():
    world = World(at_1="cancel", at_2="refuse")
    hold = world.hold()

    with pytest.raises(Cancelled):
        world.run(end([(hold, Ending("returned", "1"), TERMS)]))


def test_a_cancelled_settle_is_said_once_more_before_it_goes():
    world = World(at_1="cancel")
    hold = world.hold()

    with pytest.raises(Cancelled):
        world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert (world.entry().state, len(world.swaps)) == ("done", 2)


def test_a_settle_is_said_again_while_the_store_is_away_for_a_moment():
    world = World(at_1="refuse", at_2="refuse")
    hold = world.hold()

    [answer] = world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert (answer.state, len(world.swaps)) == ("settled", 3)


def test_a_settle_is_given_up_when_the_store_stays_away():
    world = World(**{f"at_{number}": "refuse" for number in range(1, TRIES + 1)})
    hold = world.hold()

    with pytest.raises(Unreachable):
        world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert len(world.swaps) == TRIES


def test_a_settle_behind_a_lock_is_not_said_again():
    world = World(at_1="lock")
    hold = world.hold()

    with pytest.raises(Locked):
        world.run(end([(hold, Ending("returned", "1"), TERMS)]))

    assert len(world.swaps) == 1


def test_a_dropped_flow_says_nothing_more():
    world = World()
    for flow in (claim([bid()]), end([(world.hold("bob"), Ending("returned"), TERMS)])):
        asked = flow.send(None)
        while asked.name != "swap":
            asked = flow.send(0.0)
        flow.close()

    assert world.swaps == []


def test_a_key_twice_in_a_batch_is_an_error():
    with pytest.raises(Misconfigured, match="stands twice"):
        World().run(claim([bid(), bid("bob")]))


# ----- in time, or not at all


def test_a_claim_that_came_late_is_renewed_before_the_effect_starts():
    world = World(at_1="slow")

    answer = world.run(acquire(bid()))

    assert (answer.state, answer.since) == ("won", 1000.0)
    assert world.entry().version == answer.entry.version
    assert len(world.swaps) == 2


def test_a_joined_claim_has_no_lease_to_renew_however_late_it_comes():
    world = World(at_1="slow")

    answer = world.run(acquire(Bid(KEY, "ann", TERMS, "joined")))

    assert (answer.state, len(world.swaps)) == ("won", 1)


def test_a_claim_that_came_so_late_that_it_was_taken_is_not_started():
    world = World(at_1="slow")
    swap = world.swap

    def taken(changes: Sequence[Change]) -> Sequence[Reply]:
        replies = swap(changes)
        if len(world.swaps) == 1:
            world.now += 60
            run(claim([Bid(KEY, "bob", TERMS, "idempotent")]), Ports(world.memory, world))
        return replies

    world.swap = taken  # type: ignore[method-assign]
    answer = world.run(acquire(bid(effect="idempotent")))

    assert answer.state == "busy"
    assert world.entry().token == "bob"


def test_a_claim_that_came_so_late_that_it_was_parked_is_freed_because_it_never_started():
    world = World(at_1="slow")
    swap = world.swap

    def parked(changes: Sequence[Change]) -> Sequence[Reply]:
        replies = swap(changes)
        if len(world.swaps) == 1:
            world.now += 60
            run(claim([Bid(KEY, "bob", TERMS)]), Ports(world.memory, world))
        return replies

    world.swap = parked  # type: ignore[method-assign]
    answer = world.run(acquire(bid()))

    assert answer.state == "busy"
    assert (world.entry().state, world.entry().begun) == ("free", None)


def test_a_late_claim_that_is_cancelled_while_it_renews_is_given_back():
    world = World(at_1="slow", at_2="cancel")

    with pytest.raises(Cancelled):
        world.run(acquire(bid()))

    assert (world.entry().state, world.entry().attempt) == ("free", 0)


def test_a_late_claim_that_is_dropped_while_it_renews_says_nothing_more():
    world = World(at_1="slow")
    flow = acquire(bid())
    asked, swaps = flow.send(None), 0
    while swaps < 2:
        asked = flow.send(asked.on(Ports(world, world)))
        swaps += asked.name == "swap"
    flow.close()

    assert len(world.swaps) == 1


def test_patience_ends():
    world = World()
    world.hold("bob")

    answer = world.run(acquire(bid(), patience=5))

    assert answer.state == "busy"
    assert 5 <= world.monotonic_now < 6
    assert len(world.swaps) == 1


def test_patience_outlasts_a_dead_holder():
    world = World()
    world.hold("bob", effect="idempotent")

    answer = world.run(acquire(bid(effect="idempotent"), patience=100))

    assert (answer.state, world.entry().token) == ("won", "ann")


def test_patience_is_rewarded_with_the_others_receipt():
    world = World()
    hold = world.hold("bob")

    def settle() -> None:
        world.between = None
        run(end([(hold, Ending("returned", '"theirs"'), TERMS)]), Ports(world.memory, world))

    world.between = settle
    answer = world.run(acquire(bid(), patience=100))

    assert (answer.state, answer.entry.body) == ("done", '"theirs"')


# ----- holding


def test_begun_is_written_before_the_effect_with_what_was_prepared():
    world = World()
    hold = world.hold(begin=False)

    answer = world.run(begin(hold, '"request"'))

    assert answer.state == "won"
    assert (world.entry().begun, world.entry().body, world.entry().attempt) == (world.now, '"request"', 1)


def test_a_begin_whose_reply_was_lost_is_written_once():
    world = World(at_1="lose-reply")
    hold = world.hold(begin=False)

    answer = world.run(begin(hold))

    assert (answer.state, world.entry().attempt, world.entry().version) == ("won", 1, hold.entry.version + 1)


def test_a_holder_adopts_the_version_that_its_lost_heartbeat_wrote():
    world = World(at_1="lose-reply")
    hold = world.hold()
    world.script |= dict.fromkeys(range(2, TRIES + 1), "lose-request")
    [unsure] = world.run(renew([hold]))

    [answer] = world.run(renew([replace(hold, unsure=True)]))

    assert (unsure.state, answer.state) == ("unknown", "won")
    assert answer.entry.version == hold.entry.version + 2


def test_a_parked_entry_is_not_a_renewed_one_although_its_token_and_version_fit():
    world = World()
    hold = world.hold()
    world.now += 60
    run(claim([bid("bob")]), Ports(world.memory, world))

    [answer] = world.run(renew([hold]))

    assert (answer.state, world.entry().state) == ("parked", "parked")


def test_what_cannot_be_ended_is_answered_beside_what_can():
    world = World()
    hold = world.hold()
    foreign = Hold(Key("flows", 2), "ann", Entry("free", token="ann"))

    answers = world.run(end([(foreign, Ending("returned"), TERMS), (hold, Ending("returned", "1"), TERMS)]))
    nothing = world.run(end([(foreign, Ending("returned"), TERMS)]))

    assert [answer.state for answer in answers] == ["lost", "settled"]
    assert [answer.state for answer in nothing] == ["lost"]


def test_a_holder_that_says_it_did_not_happen_corrects_the_parking_of_another():
    world = World()
    hold = world.hold()
    world.now += 60
    run(claim([bid("bob")]), Ports(world.memory, world))
    used_up = Terms(attempts=1)

    [answer] = world.run(end([(hold, Ending("refused"), used_up)]))

    assert (answer.state, world.entry().state, world.entry().why) == ("settled", "parked", "failed")


# ----- deciding


def parked_world(**script: str) -> World:
    world = World(**script)
    hold = world.hold()
    run(end([(hold, Ending("raised"), TERMS)]), Ports(world.memory, world))
    return world


@pytest.mark.parametrize("what", ["", "lose-reply", "lose-request"])
def test_a_probes_answer_is_written_on_the_version_it_was_asked_about(what):
    world = parked_world(at_1=what)

    answer = world.run(answer_probe(KEY, world.entry(), "probe", Happened(5), "5"))

    assert (answer.state, world.entry().state, world.entry().body) == ("settled", "done", "5")


def test_a_probes_answer_about_an_older_version_is_not_written():
    world = parked_world()
    asked = world.entry()
    world.run(resolve(KEY, False, None, "ops", "op"))

    answer = world.run(answer_probe(KEY, asked, "probe", CannotHappen(), None))

    assert (answer.state, world.entry().token) == ("lost", "op")


def test_a_decision_is_taken_anew_if_the_entry_changes_in_between():
    world = parked_world()
    [stale] = world.memory.get([KEY])
    world.get = lambda keys: [stale]  # type: ignore[method-assign]
    run(resolve(KEY, False, None, "ops", "first"), Ports(world.memory, world))

    lost = world.run(decide(KEY, "second", lambda entry: _settle_if_parked(entry)))

    assert (lost.state, world.entry().token) == ("lost", "first")


def _settle_if_parked(entry: Entry | None) -> Change | None:
    if entry is None or entry.state != "parked":
        return None
    return Change(KEY, entry.version, replace(entry, state="done", token="second"))


def test_an_operator_cannot_retry_what_is_in_doubt_and_nothing_is_noted():
    world = parked_world()

    answer = world.run(retry(KEY, "ann", "op"))

    assert answer.state == "lost"
    assert world.run(acts(KEY)) == []


def test_an_operators_act_holds_for_the_version_that_was_shown():
    world = parked_world()
    shown = world.entry()
    answer = world.run(resolve(KEY, True, None, "ann", "op", shown))
    later = world.run(resolve(KEY, True, None, "ann", "op", shown))

    assert (answer.state, later.state) == ("settled", "lost")


def test_acts_of_people_are_noted_in_order_and_bounded():
    world = World()
    for n in range(LIMIT + 5):
        world.run(note(KEY, {"act": "retry", "n": n}, f"t{n}"))

    noted = world.run(acts(KEY))

    assert [act["n"] for act in noted] == list(range(5, LIMIT + 5))


def test_a_decision_keeps_the_record_the_error_and_the_reason_that_its_receipt_overwrites():
    world = parked_world()
    body = '{"record":{"id":"r1"},"error":"Refused: closed","request":1}'
    world.memory.swap([Change(KEY, world.entry().version, replace(world.entry(), body=body))])

    answer = world.run(resolve(KEY, True, '"receipt"', "ann", "op", reason="the bank shows it"))

    [act] = world.run(acts(KEY))
    assert answer.entry is not None
    assert answer.entry.body == '"receipt"'
    assert act["found"] == {"record": {"id": "r1"}, "error": "Refused: closed"}
    assert act["reason"] == "the bank shows it"
    assert act["version"] == answer.entry.version - 1


def test_acts_that_have_no_room_lose_first_what_was_found_and_then_the_oldest():
    world = World()
    for n in range(LIMIT):
        world.run(note(KEY, {"n": n, "found": {"error": "x" * 8_000}}, f"t{n}"))
    full = world.run(acts(KEY))
    world.run(note(KEY, {"n": LIMIT, "reason": "x" * 50_000}, "large"))
    world.run(note(KEY, {"n": LIMIT + 1, "reason": "x" * 50_000}, "larger"))

    assert [act["n"] for act in full] == list(range(LIMIT))
    assert [act["n"] for act in full if "found" in act] == list(range(LIMIT - 8, LIMIT))
    assert [act["n"] for act in world.run(acts(KEY))] == [LIMIT + 1]


def test_two_people_at_once_are_both_noted():
    world = World()
    swap = world.swap

    def meanwhile(changes: Sequence[Change]) -> Sequence[Reply]:
        if not world.swaps:
            world.swaps.append([])
            run(note(KEY, {"by": "bob"}, "b"), Ports(world.memory, world))
        return swap(changes)

    world.swap = meanwhile  # type: ignore[method-assign]
    world.run(note(KEY, {"by": "ann"}, "a"))

    assert [act["by"] for act in world.run(acts(KEY))] == ["bob", "ann"]


def test_a_note_whose_reply_was_lost_stands_once_and_one_that_stays_unknown_stops_the_act():
    world = World(at_1="lose-reply")
    world.run(note(KEY, {"by": "ann"}, "a"))
    silent = parked_world(**{f"at_{n}": "lose-request" for n in range(1, TRIES + 1)})

    with pytest.raises(Unreachable, match="nothing was decided"):
        silent.run(resolve(KEY, True, None, "ann", "op"))

    assert len(world.run(acts(KEY))) == 1
    assert silent.entry().state == "parked"


@pytest.mark.parametrize("body", ["no JSON", "[]", '{"by": "ann"}', '["no act"]'])
def test_a_spoilt_audit_is_said_and_keeps_nobody_from_acting(body):
    world = World()
    spoilt = Entry("done", token="x", effect="idempotent", body=body)
    world.memory.swap([Change(audit_key(KEY), None, spoilt)])

    world.run(note(KEY, {"by": "ann"}, "a"))

    assert [act["by"] for act in world.run(acts(KEY))] == ["?", "ann"]


# ----- joined, and hygiene


def test_a_rolled_back_attempt_is_counted_unless_another_has_it_now():
    world = World()
    world.run(note_failure(bid(effect="joined"), Ending("raised")))
    counted = world.entry()
    world.now += 10
    world.hold("bob", effect="idempotent")
    before = world.entry()

    world.run(note_failure(bid(effect="joined"), Ending("raised")))

    assert (counted.state, counted.attempt) == ("free", 1)
    assert world.entry() == before


def test_a_purge_removes_what_is_done_and_forgotten_and_nothing_else():
    world = World()
    forever = Terms()
    keys = [Key("flows", n) for n in range(1, 30)]
    for at, key in enumerate(keys):
        terms = forever if at % 3 == 0 else TERMS
        mine = Bid(key, f"t{at}", terms)
        [won] = world.run(claim([mine]))
        if at % 3 != 2:
            world.run(end([(Hold(key, mine.token, won.entry), Ending("returned", "1"), terms)]))
    world.now += 2 * 86400

    removed = world.run(purge(page=4))
    again = world.run(purge("flows"))

    left = {key for key in keys if world.memory.get([key])[0].entry}
    assert (removed, again) == (10, 0)
    assert left == {key for at, key in enumerate(keys) if at % 3 != 1}


def test_answers_say_what_is_known():
    assert Answer("busy", wait=3).wait == 3
