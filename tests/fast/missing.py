"""Hides an installed package from the code under test, as on a machine where it is missing."""

from __future__ import annotations

import sys

import pytest

from onefold.runtime import http


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Let every later import of a package and of its modules fail, until the test ends."""
    loaded = [name for name in sys.modules if name.startswith(f"{package}.")]
    for name in (package, *loaded):
        monkeypatch.setitem(sys.modules, name, None)
    http._library.cache_clear()  # it keeps the HTTP client that it imported first
