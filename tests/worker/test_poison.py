"""Records that raise, hang or take their worker with them: they end parked, and their neighbours go through.

Workers are processes, because a record that kills its worker (as the kernel does where memory ends) cannot be
tried otherwise. Attempts are counted in the ledger: nobody else is left to remember them.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onefold.core.key import Key
from onefold.stores import connect
from tests.waiting import wait_for
from tests.worker.processes import Workers, World, pipeline_text

ACT = """
import os, signal
import anyio
import anyio.to_thread

async def act(record):
    if record.id in {poison}:
        {harm}
    await anyio.to_thread.run_sync(send, record)
"""
HARM = {
    "raises": "raise MemoryError('too much')",
    "hangs": "await anyio.sleep_forever()",
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
}
NUMBER = 30
ATTEMPTS = 4

# Where a test waits for the end of a lease or of an effect, it must not be long. Elsewhere it must never come
# because the machine stands still: a neighbour that took too long would be in doubt, and not by the poison.
# What may be repeated does no harm if it is.
LEASE = {("dies", "one-shot"): 5, ("dies", "idempotent"): 1}
TIMEOUT = {("hangs", "one-shot"): 5, ("hangs", "idempotent"): 1}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(200)
@pytest.mark.parametrize("effect", ["idempotent", "one-shot"])
@pytest.mark.parametrize("harm", HARM)
def test_a_record_that_raises_hangs_or_kills_its_worker_is_parked_and_its_neighbours_go_through(
    tmp_path: Path, harm: str, effect: str, seed: int
):
    poison = [f"e{n}" for n in Random(seed).sample(range(1, NUMBER + 1), 2)]
    url, world = f"sqlite:///{tmp_path / 'onefold.db'}", World(rates={})
    # What was begun beside a one-shot that dies is in doubt too: one after another shows whose fault it is.
    at_once = 1 if (harm, effect) == ("dies", "one-shot") else 4
    with world.site, Workers(tmp_path, url) as workers, closing(connect(url)) as store:
        text = pipeline_text(
            world,
            "poisoned",
            effect,
            poll={"every": 0.1},
            terms={"lease": LEASE.get((harm, effect), 60), "backoff": (0.1, 0.2), "attempts": ATTEMPTS},
            act=ACT.format(poison=poison, harm=HARM[harm]),
            timeout=TIMEOUT.get((harm, effect), 300),
            at_once=at_once,
        )
        (tmp_path / "worked.py").write_text(text)
        for _ in range(NUMBER):
            world.happen()
        names = list(world.events)
        workers.start()

        def entries() -> dict[str, Any]:
            found = store.get([Key("poisoned", name) for name in names])
            return {name: one.entry for name, one in zip(names, found, strict=True)}

        def settled() -> bool:
            return all(one is not None and one.state in ("done", "parked") for one in entries().values())

        wait_for(settled, 150, meanwhile=workers.follow_the_dead, story=lambda: f"{entries()} {workers.log}")
        found = entries()
        workers.stop()

    states = {name: (one.state, one.why) for name, one in found.items()}
    why = "failed" if effect == "idempotent" else "in-doubt"
    # The effect that ended just before its worker was killed may not have been written down: that is a doubt.
    doubted = {name for name in set(names) - set(poison) if states[name] == ("parked", "in-doubt")}
    assert len(doubted) <= len(workers.deaths) * (effect == "one-shot")
    assert {name: states[name] for name in poison} == dict.fromkeys(poison, ("parked", why))
    assert {states[name] for name in set(names) - set(poison) - doubted} == {("done", None)}
    assert [found[name].attempt for name in poison] == [ATTEMPTS if effect == "idempotent" else 1] * 2
    assert set(world.effects) == set(names) - set(poison)
    assert effect == "idempotent" or set(world.effects.values()) == {1}
    assert bool(workers.deaths) == (harm == "dies")
