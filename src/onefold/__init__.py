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
    from onefold.core.terms import Terms
    from onefold.ledger import AsyncLedger, Ledger, current_claim
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
        "Refused": "onefold.core.errors",
        "Terms": "onefold.core.terms",
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
    "Refused",
    "Terms",
    "__version__",
    "current_claim",
]
