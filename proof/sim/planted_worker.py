"""Runs `onefold` with a planted bug: `python -m proof.sim.planted_worker BUG run`.

The demo starts its workers with it in a test, to see that the account can fail. It plants before anything of
`onefold` is imported, and changes no file.
"""

from __future__ import annotations

import sys
from importlib import import_module

from proof.sim.planted import named
from proof.sim.planting import plant

if __name__ == "__main__":
    plant(named(sys.argv.pop(1)))
    sys.exit(import_module("onefold.cli").main())
