"""Stand-ins of the outside world: real sockets on loopback, seeded, truthful unless told to misbehave.

Each keeps its own journal of what truly happened, which Onefold neither writes nor reads. They serve the demo
and the tests; production code must never import them.
"""
