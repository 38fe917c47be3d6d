"""When the record of one source failed, another source's record of the same key may be tried at once.

The first to show a thing is often the one that knows least of it. So its failure does not make the others
wait: what another source shows is tried at once, before the back-off counts. Only where nothing can have
happened, and not where the far side itself said when to come again. Decided here from bids and entries;
`delivery` acts on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec.structs import replace

from onefold.core.claims import Answer, Bid
from onefold.core.entry import Change, Entry, Seen
from onefold.core.protocol import ask, claim
from onefold.worker.work import Task, read

REMEMBERED = 10_000
"""How many records are kept in memory that were shown while another source's was being acted upon."""


def may_overtake(bid: Bid, entry: Entry | None, rivals: int) -> bool:
    """Say whether a record need not wait out the back-off of another source's.

    A keyed effect that may have reached the far side is repeated with the same bytes, so nobody overtakes it.
    """
    if entry is None or entry.state != "free" or entry.not_before is None or entry.begun is not None:
        return False
    if entry.source in ("", bid.source) or rivals < 1:
        return False
    failed = read(bid.key, entry)
    return failed is None or not failed.later


def made_due(bid: Bid, entry: Entry | None, rivals: int) -> Change | None:
    """Put a record in the place of another source's, due now; None if it has to wait like any other."""
    if entry is None or not may_overtake(bid, entry, rivals):
        return None
    due = replace(entry, token=bid.token, not_before=None, source=bid.source, body=bid.body)
    return Change(bid.key, entry.version, due)


async def overtake(bids: Sequence[Bid], entries: Sequence[Entry | None], rivals: int) -> None:
    """Make records due now where they may overtake what stands; whoever is quicker wins, as ever."""
    pairs = zip(bids, entries, strict=True)
    wanted = [(bid, change) for bid, entry in pairs if (change := made_due(bid, entry, rivals))]

    def judge(at: int, change: Change, seen: Seen) -> Change | Answer:
        bid = wanted[at][0]
        mine = seen.entry is not None and seen.entry.token == bid.token
        return Answer("settled") if mine else made_due(bid, seen.entry, rivals) or Answer("lost")

    if wanted:
        await ask([change for _, change in wanted], judge, leases=False)


async def claim_raced(bids: Sequence[Bid], rivals: int) -> list[Answer]:
    """Claim keys; what waits because another source's record failed is overtaken, and claimed again."""
    answers = await claim(bids)
    if rivals < 1:
        return answers
    late = [
        at
        for at, answer in enumerate(answers)
        if answer.state == "busy" and may_overtake(bids[at], answer.entry, rivals)
    ]
    if late:
        ours = [bids[at] for at in late]
        await overtake(ours, [answers[at].entry for at in late], rivals)
        for at, answer in zip(late, await claim(ours), strict=True):
            answers[at] = answer
    return answers


class RunnersUp:
    """Records that were shown while another source's record of their key was being acted upon."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._tasks: OrderedDict[bytes, Task] = OrderedDict()

    def note(self, task: Task, holder: Entry | None) -> None:
        """Remember a record that came second; a third is not better than a second."""
        if holder is None or holder.state != "held" or holder.source in ("", task.record.source):
            return
        self._tasks.setdefault(task.key.id, task)
        if len(self._tasks) > self._limit:
            self._tasks.popitem(last=False)

    def take(self, key: bytes) -> Task | None:
        """Return the record that came second, and forget it."""
        return self._tasks.pop(key, None)
