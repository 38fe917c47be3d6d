"""A history is the same in every process, under every hash seed, whatever was lived through before it.

Only several processes can show that.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from proof.apps.parts import TURNS
from proof.sim.campaign import ROOT
from proof.sim.trace import digests as of_ledgers

SEEDS = 200
"""Histories of ledgers: a hundred times as quick as those of applications."""


def digests(seeds: list[int], hash_seed: int) -> dict[str, str]:
    """Live through histories in a process of their own, in this order."""
    command = [sys.executable, "-m", "proof.apps.stint", "digests", *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(done.stdout)
    return told


def agree(seeds: list[int], alone: list[int]) -> None:
    with ThreadPoolExecutor(2) as pool:
        forwards, backwards = pool.map(digests, (seeds, seeds[::-1]), (1, 2))
        assert len(set(forwards.values())) == len(seeds)
        assert backwards == forwards

        for told in pool.map(lambda seed: digests([seed], hash_seed=2), alone):
            assert told.items() <= forwards.items()


def test_a_history_of_every_application_is_the_same_in_sequence_and_in_reverse_order():
    # The first of a sequence is alone: nothing was lived through before it.
    agree(list(range(2 * len(TURNS))), alone=[])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_histories_agree_alone_in_sequence_and_in_reverse_order():
    seeds = list(range(200))

    agree(seeds, alone=seeds)


def elsewhere(hash_seed: str) -> list[str]:
    script = f"import json\nfrom proof.sim.trace import digests\nprint(json.dumps(digests(range({SEEDS}))))"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return list(json.loads(run.stdout))


def test_a_seed_gives_the_same_history_in_every_process_and_under_every_hash_seed():
    assert elsewhere("1") == elsewhere("2") == of_ledgers(range(SEEDS))
