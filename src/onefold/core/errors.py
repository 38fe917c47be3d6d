"""Every error of Onefold, sorted by what it lets you know: did the effect run?

`ran` is "no" where nothing happened and a repeat is safe, "yes" where it happened, and "unknown"
where only a person or a probe can tell. Errors carry their values as attributes, print the thing,
the reason and the next step, and survive pickling. They must not decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from onefold.core.key import Key

Ran = Literal["no", "unknown", "yes"]


class OnefoldError(Exception):
    """The root of every error that Onefold raises."""

    ran: ClassVar[Ran] = "no"


class Refused(OnefoldError):
    """Raise this inside an effect when nothing happened: trying again is safe.

    Raise it only when you are sure. Any other exception leaves a one-shot effect in doubt.
    """


class Later(Refused):
    """Raise this inside an effect when nothing happened and the outside said when to come again.

    The attempt does not count: a far side that is busy, or data that is not final yet, uses none up.
    `note` is kept with the record, for people and lists.
    """

    def __init__(self, reason: str, seconds: float, note: Any = None) -> None:
        super().__init__(reason, seconds, note)
        self.reason = reason
        self.seconds = seconds
        self.note = note

    def __str__(self) -> str:
        return f"{self.reason}; again in {self.seconds:.1f} s"


class Rejected(Refused):
    """Raise this inside an effect when nothing happened and trying again is useless: it is parked at once.

    A bad address, a text that the far side cannot read, an account that is gone: only a person can help.
    """


class Misconfigured(OnefoldError, ValueError):
    """What was asked for cannot be had: a bad key, lease, URL or file. Nothing ran."""


class Unreachable(OnefoldError):
    """The store could not be asked, or did not answer. No effect was started."""


class Unanswered(Unreachable):
    """A store was asked and did not answer: what was asked may have been done. Clients of stores raise it."""


class Locked(Unreachable):
    """Another writer kept the store locked for longer than we wait. Nothing was written."""


class Busy(OnefoldError):
    """Somebody else holds the key, or it waits for its next attempt. Nothing was written."""

    def __init__(self, key: Key, wait: float) -> None:
        super().__init__(key, wait)
        self.key = key
        self.wait = wait

    def __str__(self) -> str:
        return f"{self.key} is busy: held, or waiting for its next attempt; ask again in {self.wait:.1f} s"


class Reentered(Busy):
    """The caller itself holds the key: a protected call was made inside of its own effect."""

    def __str__(self) -> str:
        return (
            f"{self.key} is held by the effect that makes this call, which would wait for itself: "
            "give the inner call a key of its own, or call the function without protection"
        )


class Mismatch(OnefoldError):
    """The key is known, but with other content than was given now."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"{self.key} was claimed before with other content: "
            f"two different things share one key; see `onefold why {self.key.spelled}`"
        )


class Parked(OnefoldError):
    """The key waits for a decision; it will not run by itself."""

    ran = "unknown"

    def __init__(self, key: Key, why: str) -> None:
        super().__init__(key, why)
        self.key = key
        self.why = why

    def __str__(self) -> str:
        return f"{self.key} is parked ({self.why}) and waits for a decision: `onefold why {self.key.spelled}`"


class LostClaim(OnefoldError):
    """Somebody took the claim over before it was settled; it is no longer ours."""

    ran = "unknown"

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"{self.key} is no longer ours: its lease ran out and another took over or decided; "
            f"the effect may have happened here; see `onefold why {self.key.spelled}`"
        )


class Unfinished(OnefoldError, TypeError):
    """An effect gave something that is still to run, or that cannot be awaited: its work may not be done."""

    ran = "unknown"

    def __init__(self, key: Key, what: str, fix: str) -> None:
        super().__init__(key, what, fix)
        self.key = key
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.key} is not recorded as done, because {self.what}: {self.fix}"


class Unsettled(OnefoldError):
    """The effect happened, but the store could not be told; `receipt` is what it returned."""

    ran = "yes"

    def __init__(self, key: Key, receipt: Any = None) -> None:
        super().__init__(key, receipt)
        self.key = key
        self.receipt = receipt

    def __str__(self) -> str:
        return (
            f"{self.key} happened, but the store did not confirm that it noted it; "
            f"when the store is back, see `onefold why {self.key.spelled}`"
        )


class NoReceipt(OnefoldError):
    """The effect happened before, but its receipt cannot be given."""

    ran = "yes"

    def __init__(self, key: Key, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key} is done, but its receipt cannot be given: {self.reason}"
