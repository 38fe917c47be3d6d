"""Which applications the demo shows, in the order of its account."""

from __future__ import annotations

from importlib import import_module

from onefold.worlds.demo.part import Part

PARTS = {
    "whales": "onefold.worlds.demo.whales:Whales",
    "messages": "onefold.worlds.demo.messages:Messages",
    "copytrade": "onefold.worlds.demo.copytrade:Copytrade",
    "candles": "onefold.worlds.demo.candles:Candles",
    "listings": "onefold.worlds.demo.listings:Listings",
}


def made(names: tuple[str, ...] = ()) -> list[tuple[Part, Part]]:
    """Make the parts of the demo, each once for Onefold and once for the naive worker."""
    pairs: list[tuple[Part, Part]] = []
    for name in names or tuple(PARTS):
        module, _, kind = PARTS[name].partition(":")
        part = getattr(import_module(module), kind)
        pairs.append((part(), part()))
    return pairs
