"""The kit that proves a store, and tells what a worker does when things go wrong. It ships with Onefold.

`contract` is what every store must pass, `wrong` are stores that must not, `model` compares a store with
memory step by step, `clock` and `flaky` are the fakes, `proxy` cuts cables. Production code imports nothing
from here, and nothing here imports pytest or hypothesis before it is needed.
"""

import sys

# A failed promise then shows both sides, as in a test of your own; without pytest, none is imported.
if running := sys.modules.get("pytest"):
    running.register_assert_rewrite("onefold.testing.contract")
