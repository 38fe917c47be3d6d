"""Alerts each subscriber of each large trade on Polymarket, once.

Polls the Data API newest first, keys every fill (not every transaction), asks Gamma for a market only where a
filter needs it, and sends one message per subscriber and fill.
"""

from onefold.apps.whales.pipeline import LIVE, Settings, pipelines

__all__ = ["LIVE", "Settings", "pipelines"]
