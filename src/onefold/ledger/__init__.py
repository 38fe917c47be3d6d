"""The door for library users: protect a function, or claim a key, and act on it once.

`Ledger` blocks, `AsyncLedger` is awaited; both drive the same flows and have the same names. Effects
and probes run here, between the flows. What may happen to a key is decided in `core`, never here.
"""

from onefold.ledger.awaited import AsyncClaim, AsyncLedger
from onefold.ledger.blocking import Claim, Ledger
from onefold.ledger.holding import Outcome, current_claim

__all__ = ["AsyncClaim", "AsyncLedger", "Claim", "Ledger", "Outcome", "current_claim"]
