"""The kit that proves a store, and tells what a worker does when things go wrong. It ships with Onefold.

`contract` is what every store must pass, `wrong` are stores that must not, `model` compares a store with
memory step by step, `clock` and `flaky` are the fakes, `proxy` cuts cables. `virtual` runs whole programs in
simulated time, and `network` is the network on which their clients and servers meet. `simulation` runs
pipelines of yours there, and `scripted` is a source for them. Production code imports nothing from here, and
nothing here imports pytest or hypothesis before it is needed.

The names are loaded when they are used: a test of a store needs no worker.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onefold.testing.network import Network
    from onefold.testing.runtime import VirtualRuntime
    from onefold.testing.scripted import Scripted
    from onefold.testing.simulation import Simulation
    from onefold.testing.virtual import VirtualLoop
else:
    _HOMES = {
        "Network": "onefold.testing.network",
        "Scripted": "onefold.testing.scripted",
        "Simulation": "onefold.testing.simulation",
        "VirtualLoop": "onefold.testing.virtual",
        "VirtualRuntime": "onefold.testing.runtime",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


__all__ = ["Network", "Scripted", "Simulation", "VirtualLoop", "VirtualRuntime"]

# A failed promise then shows both sides, as in a test of your own; without pytest, none is imported.
if running := sys.modules.get("pytest"):
    running.register_assert_rewrite("onefold.testing.contract")
