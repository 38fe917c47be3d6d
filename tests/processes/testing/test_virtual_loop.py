"""Virtual loops in other processes, and beside a real loop in another thread."""

import os
import subprocess
import sys
import threading

import anyio

from onefold.testing.virtual import VirtualLoop
from tests.checkout import ROOT
from tests.fast.testing.busy import digest
from tests.fast.testing.serving import live


def test_a_history_is_the_same_in_every_process():
    seeds = [1, 2, 3]

    def elsewhere(hash_seed: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        program = f"from tests.fast.testing.busy import digest\nfor seed in {seeds}: print(digest(seed))"
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()

    here = [digest(seed) for seed in seeds]

    assert len(set(here)) == len(seeds)
    assert here == elsewhere("1") == elsewhere("2")


def test_another_thread_is_not_disturbed():
    async def elsewhere() -> int:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(anyio.sleep, number / 1000)
            # Scopes of this thread that are made before the virtual loop starts end while it runs.
            ready.set()
            await anyio.to_thread.run_sync(running.wait)
        return len(os.urandom(4))

    async def main(loop: VirtualLoop) -> None:
        running.set()
        thread.join()

    ready, running, seen = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: seen.append(anyio.run(elsewhere)))
    thread.start()
    ready.wait()
    live(main)

    assert seen == [4]
