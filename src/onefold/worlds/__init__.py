"""Stand-ins of the outside world: servers of real protocols, seeded, truthful unless told to misbehave.

`with` serves one on loopback from a background thread, `async with` on the running event loop.

Each keeps its own journal of what truly happened, which Onefold neither writes nor reads. They serve the demo
and the tests; production code must never import them.
"""
