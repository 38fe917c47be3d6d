"""How long a store's URL lets an answer be waited for: the option `timeout`, in seconds.

It reads a text; who waits, and for what, is the backend's.
"""

from __future__ import annotations

from onefold.core.errors import Misconfigured


def timeout(value: str) -> float:
    """Read a time that can be waited for."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 3600:
        raise Misconfigured(f"timeout={value!r:.40} is no time to wait: write seconds, from 0.01 to 3600")
    return seconds
