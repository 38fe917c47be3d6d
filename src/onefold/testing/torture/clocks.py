"""Let workers whose clocks are hours apart contend for the same keys, and count what was done twice.

Each worker is a process with another time of day, set by libfaketime; its monotonic clock is left alone, as
it is when an operator or NTP sets a clock. Effects last longer than their lease, so that a holder lives by
its heartbeat, and whoever trusts the time of day would take over. Counted from the far side's journal.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from onefold.core.errors import Misconfigured
from onefold.testing.torture.places import place

OFFSETS = ("-1d", "-1h", "+0", "+1h", "+1d")
LEASE = 2.0
"""Seconds; shorter ones would be lost on a busy machine, whatever the clocks say."""
LEASES = 1.5
"""How many leases an effect lasts."""

WORKER = """
import sys, time
from onefold import Key, Ledger, Terms
from onefold.core.errors import LostClaim
url, journal, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
lease, hold = float(sys.argv[4]), float(sys.argv[5])
ledger = Ledger(url)
with open(journal, "a", buffering=1) as file:
    for number in range(keys):
        def effect():
            file.write(f"{number}\\n")
            end = time.monotonic() + hold
            while time.monotonic() < end:
                time.sleep(0.01)
        try:
            ledger.call(Key("clocks", number), effect, effect="keyed", wait=600, terms=Terms(lease=lease))
        except LostClaim:
            pass  # taken over: the journal tells
"""


class Clocks(NamedTuple):
    """What came of it."""

    workers: int
    keys: int
    duplicated: int
    missing: int

    def __str__(self) -> str:
        return (
            f"{self.workers} workers with clocks at {', '.join(OFFSETS)}, {self.keys} keys: "
            f"duplicated {self.duplicated}, never done {self.missing}"
        )


def clocks(scheme: str, url: str, folder: Path, keys: int) -> Clocks:
    """Send workers with clocks that are wrong."""
    library, where = _library(), place(scheme)
    journal = folder / "journal"
    journal.touch()
    lease = max(where.lease * 4, LEASE)
    command = [
        sys.executable, "-c", WORKER, url, str(journal), str(keys), str(lease), str(lease * LEASES),
    ]  # fmt: skip
    with where.lend(url):
        started = [subprocess.Popen(command, env={**os.environ, **_faked(library, one)}) for one in OFFSETS]
        codes = [one.wait(60 + keys * lease * LEASES * 4) for one in started]
    if any(codes):
        raise Misconfigured(
            f"a worker with a wrong clock ended with {max(codes, key=abs)}: see its error above"
        )
    done = Counter(journal.read_text().split())
    return Clocks(len(OFFSETS), keys, sum(times - 1 for times in done.values()), keys - len(done))


def _faked(library: str, offset: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": library,
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def _library() -> str:
    """Find libfaketime, or say how to come by it."""
    found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1") + glob.glob(
        "/usr/lib/faketime/libfaketime.so.1"
    )
    spec = find_spec("libfaketime")
    for place_ in spec.submodule_search_locations or () if spec else ():
        found += glob.glob(f"{place_}/**/libfaketime.so*", recursive=True)
    if os.environ.get("FAKETIME_LIBRARY"):
        found.insert(0, os.environ["FAKETIME_LIBRARY"])
    if not found:
        raise Misconfigured(
            "the torture of clocks needs libfaketime: apt install faketime, or pip install libfaketime"
        )
    return found[0]
