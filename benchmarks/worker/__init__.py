"""`./dev bench worker`: the way of a record from a source to a settled effect.

How fast it is and where the time goes, and how fast the alternatives to a worker are.
"""

from __future__ import annotations

from benchmarks.worker import alternatives, stages

SUBJECTS = {"stages": stages.tables, "alternatives": alternatives.tables}
