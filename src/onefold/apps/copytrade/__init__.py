"""Copies the trades of chosen wallets on Polymarket, each once, whichever source shows it first.

Listens to the chain and polls the list of a leader's activity at once, under one key, and orders on paper or
at an order service under an id that is derived from that key.
"""

from onefold.apps.copytrade.pipeline import LIVE, Settings, pipelines

__all__ = ["LIVE", "Settings", "pipelines"]
