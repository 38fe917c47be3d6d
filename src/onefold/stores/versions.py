"""Whether a ledger's tables are of a version that this Onefold can use; the sentences if they are not.

It compares numbers. Reading the one that is stored, and making what is missing, is the backend's.
"""

from __future__ import annotations

from onefold.core.errors import Misconfigured


def refuse_newer(name: str, version: int, known: int) -> None:
    """Refuse a ledger that was written by a later Onefold."""
    if version > known:
        raise Misconfigured(
            f"{name} was written by a newer Onefold (schema {version}, this one knows {known}): "
            "upgrade with `pip install -U onefold`"
        )


def refuse_other(name: str, version: int, known: int) -> None:
    """Refuse a ledger of any other version than ours, also one that is not there."""
    refuse_newer(name, version, known)
    if version < known:
        found = f"an older ledger (schema {version} of {known})" if version else "no ledger in it"
        raise Misconfigured(f"{name} has {found}: a worker makes it when it first uses the store")
