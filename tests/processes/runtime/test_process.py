"""The number of a process: the same for ever in one, another one in each forked child."""

from __future__ import annotations

import os

import pytest

from onefold.runtime.process import PROCESS, Process


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_and_its_child_have_numbers_of_their_own():
    parent = PROCESS.number
    pid = os.fork()
    if pid == 0:
        child = PROCESS.number
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(len({parent, child, PROCESS.number}))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert PROCESS.number == parent


def test_a_number_never_comes_twice():
    process = Process()
    numbers = [process.number]
    for _ in range(3):
        process._count()  # what the hook does in a child
        numbers.append(process.number)

    assert len(set(numbers)) == 4
