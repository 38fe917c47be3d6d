"""Act on every event once: nothing lost, nothing done twice, and honest about where that promise ends."""

from onefold.core.claims import CannotHappen, Happened
from onefold.core.errors import Busy, OnefoldError, Parked, Refused
from onefold.core.key import Key
from onefold.core.terms import Terms
from onefold.ledger import AsyncLedger, Ledger, current_claim
from onefold.version import __version__

__all__ = [
    "AsyncLedger",
    "Busy",
    "CannotHappen",
    "Happened",
    "Key",
    "Ledger",
    "OnefoldError",
    "Parked",
    "Refused",
    "Terms",
    "__version__",
    "current_claim",
]
