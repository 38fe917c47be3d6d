"""Downloads price bars for wanted pairs, timeframes and periods, and stores each bar once.

Bars come from the aggregates of Polygon.io (Massive), are checked, published with their keys, and stored by a
bridge. What is in, and what is missing, is shown by `onefold coverage`.
"""

from onefold.apps.candles.pipeline import Settings, pipelines

__all__ = ["Settings", "pipelines"]
