"""`./dev bench worker`: records per second from a source to a settled effect, and where the time goes."""

from __future__ import annotations

from benchmarks.worker import stages

SUBJECTS = {"stages": stages.tables}
