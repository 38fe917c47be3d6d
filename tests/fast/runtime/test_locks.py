"""Waiting for another connection's lock, by the clock of the runtime."""

from itertools import count

from onefold.runtime import Runtime, using
from onefold.runtime.locks import LockWait


class Counted(Runtime):
    """A runtime whose time passes only while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.passed += seconds


def test_a_lock_is_tried_for_every_millisecond_until_the_time_is_over():
    # A process that writes all the time leaves the file free for less than SQLite's own pauses of 100 ms.
    wait = LockWait(5.0)
    with using(Counted()):
        for _lock in range(2):
            tries = next(number for number in count() if not wait(number))
            assert 4_990 <= tries <= 5_010
