"""A history of an application is the same in every process, whatever was lived through before it there."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from proof.apps.parts import TURNS
from proof.sim.campaign import ROOT


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
    agree(list(range(2 * len(TURNS))), alone=[0])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_histories_agree_alone_in_sequence_and_in_reverse_order():
    seeds = list(range(200))

    agree(seeds, alone=seeds)
