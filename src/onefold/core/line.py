"""The queue behind group commit: what is asked while a call is under way leaves together in the next.

One asker leads: it sends what waits, its own and the others', until its own is answered, and then
hands the lead to the next in line. A key stands once in a call. The line itself never waits; whoever
owns it guards it and decides how an asker waits for its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from onefold.core.entry import UNKNOWN, Change, Reply
from onefold.core.flow import swap

LIMIT = 1000
"""The most changes that leave in one merged call; a single larger ask still goes whole."""


class Ask:
    """The changes of one asker, and what became of them. `wake` tells it that its turn or answer came."""

    __slots__ = ("changes", "error", "leads", "replies", "wake")

    def __init__(self, changes: Sequence[Change], wake: Callable[[], object]) -> None:
        self.changes = changes
        self.wake = wake
        self.replies: Sequence[Reply] | None = None
        self.error: Exception | None = None
        self.leads = False

    @property
    def open(self) -> bool:
        return self.replies is None and self.error is None

    def answer(self) -> Sequence[Reply]:
        """Return the replies, or raise what the call raised."""
        if self.error is not None:
            raise self.error
        assert self.replies is not None, "asked for an answer before there was one"
        return self.replies


class Line:
    """Who waits, and who leads. Guard every call by one lock."""

    def __init__(self) -> None:
        self.waiting: deque[Ask] = deque()
        self.led = False
        self.crowded = False
        """The last call was shared: whoever was answered with it may be about to ask again."""

    def lead_alone(self) -> bool:
        """Take the lead without standing in line, if nobody has it."""
        if self.led:
            return False
        self.led = True
        return True

    def enter(self, ask: Ask) -> None:
        """Stand in line; the first to come leads."""
        self.waiting.append(ask)
        if not self.led:
            self.led = ask.leads = True

    def take(self, mine: Ask) -> list[Ask]:
        """Take the asks for the next call out of the line: the leader's own first."""
        self.crowded = len(self.waiting) > 1
        if not self.crowded:
            self.waiting.clear()
            return [mine]
        batch = together(mine, self.waiting)
        sent = set(batch)
        self.waiting = deque(ask for ask in self.waiting if ask not in sent)
        return batch

    def leave(self, ask: Ask) -> None:
        """Step out of line without having been sent."""
        if ask in self.waiting:
            self.waiting.remove(ask)

    def hand_on(self) -> None:
        """Give the lead to the next in line, or to nobody."""
        self.led = bool(self.waiting)
        if self.waiting:
            self.waiting[0].leads = True
            self.waiting[0].wake()


def together(mine: Ask, others: Iterable[Ask]) -> list[Ask]:
    """Choose what leaves in one call: the leader's own ask first, then others in order, no key twice."""
    batch, keys = [mine], {change.key.id for change in mine.changes}
    for ask in others:
        wanted = {change.key.id for change in ask.changes}
        if ask is not mine and len(keys) + len(wanted) <= LIMIT and keys.isdisjoint(wanted):
            batch.append(ask)
            keys |= wanted
    return batch


async def send(batch: Sequence[Ask]) -> None:
    """Send one merged call and give each asker its answer; one that fails is split and sent again."""
    changes = merged(batch)
    try:
        replies = await swap(changes)
    except Exception as error:
        await _split(batch, error)
    except BaseException:
        # The leader dies in the middle of the call: nobody in it can know what was written.
        deliver(batch, changes, [UNKNOWN] * len(changes))
        raise
    else:
        deliver(batch, changes, replies)


async def _split(batch: Sequence[Ask], error: Exception) -> None:
    if len(batch) == 1:
        batch[0].error = error
        batch[0].wake()
        return
    # Sending again is safe even if the first call did write: versions and tokens tell.
    try:
        for ask in batch:
            await send([ask])
    except BaseException:
        # The leader dies: those whose turn did not come would wait for ever.
        for ask in batch:
            if ask.open:
                deliver([ask], ask.changes, [UNKNOWN] * len(ask.changes))
        raise


def merged(batch: Sequence[Ask]) -> Sequence[Change]:
    """Join the changes of a batch, sorted as a store wants them."""
    if len(batch) == 1:
        return batch[0].changes
    return sorted((change for ask in batch for change in ask.changes), key=lambda change: change.key.id)


def deliver(batch: Sequence[Ask], changes: Sequence[Change], replies: Sequence[Reply]) -> None:
    """Hand every asker its own replies, in its own order."""
    if len(batch) == 1:
        batch[0].replies = replies
        batch[0].wake()
        return
    by_key = {change.key.id: reply for change, reply in zip(changes, replies, strict=True)}
    for ask in batch:
        ask.replies = [by_key[change.key.id] for change in ask.changes]
        ask.wake()
