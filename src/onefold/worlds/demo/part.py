"""What the demo asks of each application: a world of its own, a section of the configuration, its truth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Protocol


class Part(Protocol):
    """One application in the demo. It is made twice with one seed: for Onefold, and for the naive worker."""

    name: str

    def start(self, folder: Path, seed: int) -> str:
        """Start the worlds, with all their mischief, and give the lines below `[apps.NAME]`."""

    def setup(self) -> dict[str, Any]:
        """Give live settings that are put before the run: `{"whales.subscribers": [...]}`."""

    def happen(self, share: float) -> None:
        """Let happen what should have happened when this share of the run is over; called often."""

    def calm(self) -> None:
        """Be truthful from now on, so that what is left can be finished."""

    def expected(self) -> Counter[str]:
        """Say which effects there should be by now, from the world's journal."""

    def happened(self) -> Counter[str]:
        """Say which effects there were, from the far side's journal."""

    def filtered(self) -> int:
        """Say how many events ask for no effect."""

    def named(self, row: dict[str, Any]) -> str | None:
        """Say which expected effect an open entry is about: a line of `onefold list --json`."""

    def naive(self) -> dict[str, Any]:
        """Give what the naive worker of this application needs to know."""

    def close(self) -> None:
        """Stop the worlds."""
