"""Act on every event once: nothing lost, nothing done twice, and honest about where that promise ends.

The names are loaded when they are used, so that a command which only reads a store starts without the
ledger and its event loop.
"""

from typing import TYPE_CHECKING

from onefold.version import __version__

if TYPE_CHECKING:
    from onefold.core.claims import CannotHappen, Happened
    from onefold.core.errors import Busy, OnefoldError, Parked, Refused
    from onefold.core.key import Key
    from onefold.core.record import Record
    from onefold.core.terms import Terms
    from onefold.ledger import AsyncLedger, Ledger, current_claim
    from onefold.worker import Pipeline, Worker
else:
    _HOMES = {
        "AsyncLedger": "onefold.ledger",
        "Busy": "onefold.core.errors",
        "CannotHappen": "onefold.core.claims",
        "Happened": "onefold.core.claims",
        "Key": "onefold.core.key",
        "Ledger": "onefold.ledger",
        "OnefoldError": "onefold.core.errors",
        "Parked": "onefold.core.errors",
        "Pipeline": "onefold.worker",
        "Record": "onefold.core.record",
        "Refused": "onefold.core.errors",
        "Terms": "onefold.core.terms",
        "Worker": "onefold.worker",
        "current_claim": "onefold.ledger",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AsyncLedger",
    "Busy",
    "CannotHappen",
    "Happened",
    "Key",
    "Ledger",
    "OnefoldError",
    "Parked",
    "Pipeline",
    "Record",
    "Refused",
    "Terms",
    "Worker",
    "__version__",
    "current_claim",
]
