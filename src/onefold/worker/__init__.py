"""The runtime: reads sources, claims what they show, lets sinks act, and keeps cursors and counts."""

from onefold.worker.pipeline import Pipeline
from onefold.worker.running import Worker

__all__ = ["Pipeline", "Worker"]
