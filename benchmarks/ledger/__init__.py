"""`./dev bench ledger`: the ledger against the same statements by hand, and against the Python peers."""

from __future__ import annotations

from benchmarks.ledger import batches, concurrent, growth, in_memory, overhead, singles

SUBJECTS = {
    "batches": batches.tables,
    "singles": singles.tables,
    "memory": in_memory.tables,
    "concurrent": concurrent.tables,
    "overhead": overhead.tables,
    "growth": growth.tables,
}
