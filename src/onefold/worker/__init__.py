"""The runtime: reads sources, claims what they show, lets sinks act, and keeps cursors and counts.

The names are loaded when they are used: commands read what workers wrote without an event loop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onefold.worker.pipeline import Pipeline
    from onefold.worker.running import Worker
else:
    _HOMES = {"Pipeline": "onefold.worker.pipeline", "Worker": "onefold.worker.running"}

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


__all__ = ["Pipeline", "Worker"]
