"""The protocols, as flows: what to ask the store, in which order, until the answer is known.

A flow sends before it reads: one round trip claims a new key, and the same one tells a latecomer who
was first. An unknown reply is asked again with the same token and never turned into another answer.
Effects and probes run between flows, never inside one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from onefold.core import claims
from onefold.core.claims import Answer, Bid, CannotHappen, Ending, Happened, Hold
from onefold.core.entry import NOTHING, UNKNOWN, Change, Entry, Reply, Seen, Why
from onefold.core.errors import Locked, Misconfigured, Unreachable
from onefold.core.flow import Flow, get, now, scan, sleep, swap
from onefold.core.key import Key
from onefold.core.terms import Seconds, Terms

TRIES = 6
"""How often a change is sent before its sender hears *unknown*."""

PAUSE = 0.05
"""Seconds before an unknown reply is asked for again; doubled each time."""

POLL = (0.02, 0.5)
"""Seconds between two looks at a key that somebody else holds: the first pause, and the longest."""

Judge = Callable[[int, Change, Seen], Change | Answer]


class Sent(NamedTuple):
    """The first change of a single call, sent before its flow started; the flow continues from the reply."""

    since: float
    """Monotonic time before it was sent."""
    reply: Reply | BaseException

    def replies(self) -> list[Reply]:
        if isinstance(self.reply, BaseException):
            raise self.reply
        return [self.reply]


async def ask(
    changes: Sequence[Change], judge: Judge, leases: bool = True, sent_first: Sent | None = None
) -> list[Answer]:
    """Send changes until `judge` has an answer for each; what stays unknown is answered so.

    `since` in an answer is the time before its change was first sent: a lease counts from there,
    because any one of the unanswered sends may be the one that was written. What stood before it was
    asked for was written by another flow of the same holder, and its lease counts from then. Endings
    grant no lease, and need no clock.
    """
    sent = list(changes)
    answers = [Answer("unknown")] * len(sent)
    asked = [0] if len(sent) == 1 else _by_id(sent)
    since = sent_at = sent_first.since if sent_first else await now() if leases else 0.0
    tries = 0
    while asked and tries < TRIES:
        replies = sent_first.replies() if sent_first else await swap([sent[at] for at in asked])
        again, unsure, sent_first = [], False, None
        for at, reply in zip(asked, replies, strict=True):
            if reply is UNKNOWN:
                again.append(at)
                unsure = True
                continue
            verdict = judge(at, sent[at], reply)
            if isinstance(verdict, Answer):
                answers[at] = _dated(verdict, reply, since, sent_at)
            else:
                again.append(at)
                sent[at] = verdict
        asked = again
        tries += unsure
        if unsure and tries < TRIES:
            await sleep(PAUSE * 2**tries)
            sent_at = await now()
        elif asked and not unsure:
            since = sent_at = await now()
    return answers


def _dated(answer: Answer, seen: Seen, since: float, sent_at: float) -> Answer:
    """Say from when the lease of an answer counts; see `ask`."""
    answer.skew = seen.skew
    answer.since = since if sent_at - seen.idle > since else sent_at - seen.idle
    return answer


def _by_id(changes: Sequence[Change]) -> list[int]:
    """Say in which order to send changes: stores want them sorted."""
    return sorted(range(len(changes)), key=[change.key.id for change in changes].__getitem__)


# ----- claiming


def claimed_plainly(bid: Bid, reply: Reply, since: float, now: float) -> Answer | None:
    """Answer a first claim that leaves nothing to ask: won with enough lease left, or done before.

    None means that the flow has to continue from this reply: see `Sent`.
    """
    if reply is UNKNOWN:
        return None
    verdict = claims.claim(bid, reply)
    if isinstance(verdict, Change):
        return None
    # The window of a keyed effect need not be looked at: a first claim that wins has no earlier attempt.
    startable = verdict.state == "won" and now < stop_by(since, bid.terms)
    return _dated(verdict, reply, since, since) if startable or verdict.state == "done" else None


async def claim(bids: Sequence[Bid], sent_first: Sent | None = None) -> list[Answer]:
    """Try to become the one who acts on each key; answers in the order asked.

    If it cannot be learnt what was won, or the caller is cancelled, whatever was won is given back.
    """
    if len(bids) > 1 and len({bid.key.id for bid in bids}) != len(bids):
        raise Misconfigured("a key stands twice in one batch of claims: remove repeats before claiming")
    first = [claims.first(bid) for bid in bids]
    try:
        answers = await ask(first, lambda at, _, seen: claims.claim(bids[at], seen), sent_first=sent_first)
    except GeneratorExit:
        raise
    except BaseException:
        await give_back(bids)
        raise
    unknown = [answer for answer in answers if answer.state == "unknown"]
    if unknown:
        await give_back(bids)
        raise Unreachable(
            f"the store did not answer {len(unknown)} of {len(bids)} claims; no effect was started"
        )
    return answers


async def give_back(bids: Sequence[Bid]) -> None:
    """Free what these bids hold: their effects were not started. If the store is down, the lease ends it."""
    with suppress(Unreachable):
        found = await get([bid.key for bid in bids])
        await end(
            [
                (Hold(bid.key, bid.token, seen.entry), Ending("refused", at_once=True), bid.terms)
                for bid, seen in zip(bids, found, strict=True)
                # What a bid parked because its record is too old may have been done before: it stays parked.
                if seen.entry and seen.entry.token == bid.token and seen.entry.why != "beyond-memory"
            ]
        )


async def acquire(bid: Bid, patience: Seconds = 0.0, sent_first: Sent | None = None) -> Answer:
    """Claim one key, wait for it as long as patience lasts, and win it with lease enough to start."""
    until = await now() + patience if patience else 0.0
    pause, longest = POLL
    while True:
        [answer] = await claim([bid], sent_first)
        sent_first = None
        if answer.state == "won" and (
            bid.window is not None or await now() >= stop_by(answer.since, bid.terms)
        ):
            answer = await ready(bid, answer)
        while answer.state == "busy":
            left = until - await now() if patience else 0.0
            if left <= 0:
                return answer
            await sleep(max(min(pause, answer.wait, left), 0.001))
            pause = min(pause * 1.5, longest)
            [seen] = await get([bid.key])
            verdict = claims.claim(bid, seen)
            if isinstance(verdict, Change) or verdict.state == "won":
                break  # won already, if it could not be given back: then the claim says for how long
            answer = verdict
        else:
            return answer


async def ready(bid: Bid, won: Answer) -> Answer:
    """Make sure that the lease still covers the start of the effect: late means renew, or do not start.

    If that cannot be made sure, or the caller is cancelled, the claim is given back.
    """
    while won.entry and bid.effect != "joined":
        at = await now()
        if bid.window is not None and _forgotten(
            bid.window - bid.terms.margin - won.skew, won.entry, at - won.since
        ):
            await give_back([bid])  # whoever claims it next finds it in doubt
            return Answer("busy", won.entry, wait=bid.terms.margin)
        if at < stop_by(won.since, bid.terms):
            break
        try:
            [answer] = await renew([Hold(bid.key, bid.token, won.entry, won.since)])
        except GeneratorExit:
            raise
        except BaseException:
            await give_back([bid])
            raise
        if answer.state != "won":
            await give_back([bid])
            return Answer("busy", answer.entry, wait=bid.terms.lease)
        won = answer
    return won


def _forgotten(window: Seconds, entry: Entry, held: Seconds) -> bool:
    """Say whether the far side may have forgotten an earlier attempt, since the claim was decided upon."""
    if entry.begun is None or entry.begun == entry.written:
        return False  # not begun, or by this very write: there is no earlier attempt to be remembered
    return entry.written - entry.begun + held >= window


def stop_by(since: float, terms: Terms) -> float:
    """Say until when, by the monotonic clock, an effect may still be started under a lease."""
    return since + terms.lease - terms.margin


# ----- holding


async def renew(holds: Sequence[Hold]) -> list[Answer]:
    """Keep everything held alive, in one round trip; *won* means that it still is."""
    return await _rewrite(holds, claims.renew)


async def begin(hold: Hold, body: str | None = None) -> Answer:
    """Write *begun*, with the prepared request, immediately before the effect; start it only if *won*."""
    [answer] = await begin_many([hold], [body])
    return answer


async def begin_many(holds: Sequence[Hold], bodies: Sequence[str | None]) -> list[Answer]:
    """Write *begun* for several effects that start together."""
    requests = {hold.key.id: body for hold, body in zip(holds, bodies, strict=True)}
    return await _rewrite(holds, lambda hold, entry: claims.begin(hold, entry, requests[hold.key.id]))


async def _rewrite(
    holds: Sequence[Hold], decide: Callable[[Hold, Entry | None], Change | Answer]
) -> list[Answer]:
    def judge(at: int, change: Change, seen: Seen) -> Change | Answer:
        hold, entry = holds[at], seen.entry
        # After an unanswered write of an earlier flow, this version may be that one's, written long ago.
        certain = not hold.unsure or change.expected != hold.entry.version
        if certain and entry and _rewritten(change, entry, hold.token):
            return Answer("won", entry)
        return decide(hold, entry)

    first = [decide(hold, hold.entry) for hold in holds]
    return await _ask_or_answer(first, judge, leases=True)


def ended_plainly(hold: Hold, change: Change, reply: Reply) -> Answer | None:
    """Answer a first ending that leaves nothing to ask: it is written. None as in `claimed_plainly`."""
    if reply is UNKNOWN or not _written(change, reply.entry, hold.token):
        return None
    return Answer("settled", reply.entry)


async def end(endings: Sequence[tuple[Hold, Ending, Terms]], sent_first: Sent | None = None) -> list[Answer]:
    """Write how attempts ended: *settled*, *lost* to another, or *unknown*."""

    def judge(at: int, change: Change, seen: Seen) -> Change | Answer:
        hold, ending, terms = endings[at]
        if _written(change, seen.entry, hold.token):
            return Answer("settled", seen.entry)
        return claims.end(hold, seen.entry, ending, terms)

    first = [claims.end(hold, hold.entry, ending, terms) for hold, ending, terms in endings]
    try:
        return await _ask_patiently(first, judge, sent_first)
    except (GeneratorExit, Unreachable):
        raise
    except BaseException:
        # Cancelled while saying how it ended: say it once more before going, whatever comes of that.
        with suppress(Unreachable):
            await _ask_or_answer(first, judge, leases=False)
        raise


async def _ask_patiently(
    first: Sequence[Change | Answer], judge: Judge, sent_first: Sent | None
) -> list[Answer]:
    """Ask again for a while where the store is away: what is to be said has happened already.

    A lock that another holds is no absence; whoever waits for it knows better how long.
    """
    tried = 1
    while True:
        try:
            return await _ask_or_answer(first, judge, leases=False, sent_first=sent_first)
        except Unreachable as error:
            sent_first = None
            if tried == TRIES or isinstance(error, Locked):
                raise
        await sleep(PAUSE * 2**tried)
        tried += 1


def _ask_or_answer(
    first: Sequence[Change | Answer], judge: Judge, leases: bool, sent_first: Sent | None = None
) -> Flow[list[Answer]]:
    """Ask the store about the changes; what is an answer already stays one."""
    if Answer not in map(type, first):
        return ask(cast("Sequence[Change]", first), judge, leases, sent_first)
    return _ask_rest(first, judge, leases)


async def _ask_rest(first: Sequence[Change | Answer], judge: Judge, leases: bool) -> list[Answer]:
    answers = [verdict if isinstance(verdict, Answer) else Answer("unknown") for verdict in first]
    places = [at for at, verdict in enumerate(first) if isinstance(verdict, Change)]
    changes = [verdict for verdict in first if isinstance(verdict, Change)]
    if changes:
        told = await ask(changes, lambda at, change, seen: judge(places[at], change, seen), leases)
        for at, answer in zip(places, told, strict=True):
            answers[at] = answer
    return answers


def _next(change: Change) -> int:
    return (change.expected or 0) + 1


def _written(change: Change, entry: Entry | None, token: str) -> bool:
    """Say whether what was wanted is stored by this token; the entry tells, not the call."""
    wanted = change.entry
    if entry is None or wanted is None or entry.token != token:
        return False
    # A contender that parks leaves the token: why and body tell its parking from one's own.
    return (
        entry.state == wanted.state
        and entry.why == wanted.why
        and (entry.state != "parked" or entry.body == wanted.body)
    )


def _rewritten(change: Change, entry: Entry, token: str) -> bool:
    """Say whether this very change is stored, and not a renewal of the same holder's that came before it."""
    wanted = change.entry
    if wanted is None or not _written(change, entry, token) or entry.version != _next(change):
        return False
    begun = change.begin or wanted.begun is not None
    return (entry.begun is not None) == begun and entry.body == wanted.body


# ----- deciding


async def decide(key: Key, token: str, decision: Callable[[Entry | None], Change | None]) -> Answer:
    """Read an entry, decide, and write on the version that was read; *lost* if there was nothing to decide.

    If it changes in between, the decision is taken anew on what stands then.
    """
    [seen] = await get([key])
    change = decision(seen.entry)
    if change is None:
        return Answer("lost", seen.entry)

    def judge(_: int, change: Change, seen: Seen) -> Change | Answer:
        if seen.entry and seen.entry.token == token:
            return Answer("settled", seen.entry)
        return decision(seen.entry) or Answer("lost", seen.entry)

    [answer] = await ask([change], judge)
    return answer


async def answer_probe(
    key: Key, asked: Entry, token: str, answer: Happened | CannotHappen | None, body: str | None
) -> Answer:
    """Write a probe's answer on the version it was asked about, and on no other."""

    def decision(entry: Entry | None) -> Change | None:
        if entry is None or entry.version != asked.version:
            return None
        return claims.probed(key, entry, token, answer, body)

    return await decide(key, token, decision)


async def note_failure(bid: Bid, how: Ending) -> None:
    """Count a joined attempt that was rolled back, by a write of its own."""
    [seen] = await get([bid.key])
    change = claims.failed_join(bid, seen, how)
    if change:
        await ask([change], lambda _, change, seen: Answer("settled", seen.entry))


async def set_aside(bids: Sequence[Bid], why: Why) -> list[Answer]:
    """Park what nobody may try, untried; what stands already under its key is left as it is."""
    changes = [claims.set_aside(bid, why) for bid in bids]
    return await ask(changes, lambda at, change, seen: Answer("parked", seen.entry))


# ----- hygiene


class Purged(NamedTuple):
    """A page of done entries that was looked at: what was removed of it, and where the next one starts."""

    removed: Sequence[tuple[Key, Entry]]
    after: str | None


async def purge_page(scope: str | None, after: str | None, page: int) -> Purged:
    """Remove the done entries of one page whose memory ran out."""
    found, after = await scan(scope, ("done",), False, after, page)
    old = {key.id: (key, seen.entry) for key, seen in found if seen.entry and claims.forgotten(seen)}
    if not old:
        return Purged((), after)
    replies = await swap([claims.purge(*old[id]) for id in sorted(old)])
    gone = zip(sorted(old), replies, strict=True)
    return Purged([old[id] for id, reply in gone if reply == NOTHING], after)


async def purge(scope: str | None = None, page: int = 1000) -> int:
    """Remove done entries whose memory ran out, walking over everything; return how many went."""
    removed, after = 0, None
    while True:
        gone, after = await purge_page(scope, after, page)
        removed += len(gone)
        if after is None:
            return removed
