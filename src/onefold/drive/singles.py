"""Single calls: the first swap of one key is sent without a flow, and a plain reply is the answer.

Most single calls win or find *done* with it, and starting a flow would cost them more than the decision.
What is sent and what a reply means is decided in `core`. Every other reply, an error or a cancellation
included, enters the flow, which continues as if it had sent the change itself. Every swap passes the tap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from onefold.core import claims
from onefold.core.claims import Answer, Bid, Ending, Hold
from onefold.core.entry import Change, Reply
from onefold.core.flow import swap
from onefold.core.protocol import Sent, acquire, claimed_plainly, end, ended_plainly
from onefold.core.terms import Seconds, Terms
from onefold.drive.waiting import AsyncPorts, Ports, arun, atapped, is_cancellation, run, tapped


def acquire_one(bid: Bid, patience: Seconds, ports: Ports) -> Answer:
    """Claim one key, blocking: `core.protocol.acquire`."""
    now = ports.clock.monotonic
    since = now()
    try:
        [reply] = _swap([claims.first(bid)], ports)
        answer = claimed_plainly(bid, reply, since, now())
    except BaseException as error:
        return run(acquire(bid, patience, Sent(since, error)), ports)
    if answer is None:
        answer = run(acquire(bid, patience, Sent(since, reply)), ports)
    return answer


def end_one(hold: Hold, ending: Ending, terms: Terms, ports: Ports) -> Answer:
    """Write how one attempt ended, blocking: `core.protocol.end`."""
    change = claims.end(hold, hold.entry, ending, terms)
    if isinstance(change, Answer):
        return change
    try:
        [reply] = _swap([change], ports)
        answer = ended_plainly(hold, change, reply)
    except BaseException as error:
        [answer] = run(end([(hold, ending, terms)], Sent(0.0, error)), ports)
        return answer
    if answer is None:
        [answer] = run(end([(hold, ending, terms)], Sent(0.0, reply)), ports)
    return answer


async def aacquire_one(bid: Bid, patience: Seconds, ports: AsyncPorts) -> Answer:
    """Claim one key, awaiting: `core.protocol.acquire`."""
    now = ports.clock.monotonic
    since = await now()
    try:
        [reply] = await _aswap([claims.first(bid)], ports)
        answer = claimed_plainly(bid, reply, since, await now())
    except GeneratorExit:
        raise  # dropped unfinished: nothing can be awaited any more
    except BaseException as error:
        return await arun(acquire(bid, patience, Sent(since, error)), ports, is_cancellation(error))
    if answer is None:
        answer = await arun(acquire(bid, patience, Sent(since, reply)), ports)
    return answer


async def aend_one(hold: Hold, ending: Ending, terms: Terms, ports: AsyncPorts) -> Answer:
    """Write how one attempt ended, awaiting: `core.protocol.end`."""
    change = claims.end(hold, hold.entry, ending, terms)
    if isinstance(change, Answer):
        return change
    try:
        [reply] = await _aswap([change], ports)
        answer = ended_plainly(hold, change, reply)
    except GeneratorExit:
        raise
    except BaseException as error:
        flow = end([(hold, ending, terms)], Sent(0.0, error))
        [answer] = await arun(flow, ports, is_cancellation(error))
        return answer
    if answer is None:
        [answer] = await arun(end([(hold, ending, terms)], Sent(0.0, reply)), ports)
    return answer


def _swap(changes: Sequence[Change], ports: Ports) -> Sequence[Reply]:
    if ports.tap is None:
        return ports.store.swap(changes)
    replies: Sequence[Reply] = tapped(swap(changes), ports, ports.tap)
    return replies


def _aswap(changes: Sequence[Change], ports: AsyncPorts) -> Awaitable[Sequence[Reply]]:
    return ports.store.swap(changes) if ports.tap is None else atapped(swap(changes), ports, ports.tap)
