"""Where this checkout is, and where recorded data lies beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The top of the checkout."""

FIXTURES = ROOT.parent / "shared" / "fixtures"
"""Recorded answers of real services. Tests that read them are skipped where the folder is absent."""
