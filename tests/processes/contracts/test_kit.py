"""The contract as a kit of its own: without pytest, and in a Python that drops assertions."""

import subprocess
import sys


def test_the_kit_can_be_imported_and_used_without_pytest():
    program = (
        "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"
        "import onefold.testing.clock, onefold.testing.flaky, onefold.testing.wrong\n"
        "from onefold.stores.memory import MemoryStore\n"
        "from onefold.testing.contract import failures\n"
        "print(failures(lambda folder, clock: MemoryStore(clock)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_assertions_the_contract_refuses_to_pass():
    program = (
        "from onefold.testing.contract import failures; from onefold.testing.wrong import Right\n"
        "failures(lambda folder, clock: Right(clock))"
    )

    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert "run without -O" in done.stderr
