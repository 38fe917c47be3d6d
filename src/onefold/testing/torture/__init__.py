"""Real processes, killed and stopped while they work, and an account of what became of every key.

`python -m onefold.testing.torture kill|zombie|birth`, or `./dev torture`. What happened outside is counted
from a journal of the far side, which Onefold neither reads nor writes. Production code must not use it.
"""
