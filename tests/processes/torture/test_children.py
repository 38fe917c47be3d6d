"""Children are heard to their last word, are told apart by how they ended, and are always reaped."""

import subprocess
import sys

from tests.waiting import PATIENCE

BEGIN = """
import os, signal, threading
from onefold.testing.torture.children import Children

def end(child):
    children.until_ended([child])
    print(child.status, child.killed, child.said, child.complaint and child.complaint.partition(": ")[2])
"""


def run(script: str) -> list[str]:
    """Run a script in a process of its own, because forking does not go with the threads of a test run."""
    command = [sys.executable, "-c", BEGIN + script]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout.splitlines()


def test_what_a_child_said_before_it_was_killed_is_heard():
    script = """
def die(report):
    report("reach", 7)
    os.kill(os.getpid(), signal.SIGKILL)
    report("end", 7)

with Children() as children:
    end(children.start(die))
"""

    assert run(script) == ["-9 True [('reach', '7')] None"]


def test_a_child_that_fails_says_why_and_one_that_ends_is_no_complaint():
    script = """
def fail(report):
    raise ValueError("two\\nlines")

with Children() as children:
    end(children.start(fail))
    end(children.start(lambda report: None))
"""

    assert run(script) == [
        "1 False [('failed', 'ValueError: two lines')] ValueError: two lines",
        "0 False [] None",
    ]


def test_a_child_that_was_forgotten_ends_by_itself():
    script = """
with Children() as children:
    child = children.start(lambda report: signal.pause(), lifetime=1)
    children.until_ended([child])
    print(child.status == -signal.SIGALRM, child.complaint is not None)
"""

    assert run(script) == ["True True"]


def test_leaving_the_block_reaps_the_living_and_the_stopped():
    script = """
with Children() as children:
    stopped = children.start(lambda report: os.kill(os.getpid(), signal.SIGSTOP))
    living = children.start(lambda report: signal.pause())
    print(children.until_stopped(stopped), len(children))
print(stopped.killed, living.killed, len(children))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none left")
"""

    assert run(script) == ["True 2", "True True 0", "none left"]


def test_a_child_that_ends_instead_of_stopping_is_told_apart():
    script = """
with Children() as children:
    child = children.start(lambda report: report("bye"))
    print(children.until_stopped(child), child.status, child.said)
"""

    assert run(script) == ["False 0 [('bye',)]"]
