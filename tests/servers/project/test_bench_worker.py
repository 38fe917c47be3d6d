"""The lock on Redis that the benchmark of the worker gives to task queues, which have none of their own."""

import os
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from benchmarks.measure import QUICK
from benchmarks.worker.proof import Site


@pytest.mark.store("redis")
def test_the_lock_of_a_task_queue_lets_a_repeated_task_pass_without_effect(redis_url: str, tmp_path: Path):
    from benchmarks.worker.locked import Lock  # which needs the client of a server that may be missing

    effects = tmp_path / "effects"
    with closing(Lock(redis_url, "bench:", effects)) as lock:
        for id in ("a", "b", "a"):
            lock.act(id)
    assert effects.read_text() == "a\nb\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no file here that refuses each write")
@pytest.mark.store("redis")
def test_the_lock_of_a_task_queue_is_removed_if_its_effect_raises(redis_url: str, tmp_path: Path):
    from benchmarks.worker.locked import Lock

    effects = tmp_path / "effects"
    with closing(Lock(redis_url, "bench:", Path("/dev/full"))) as full, pytest.raises(OSError, match="space"):
        full.act("a")
    with closing(Lock(redis_url, "bench:", effects)) as lock:
        lock.act("a")
    assert effects.read_text() == "a\n"


@pytest.mark.store("redis")
def test_the_keys_of_a_task_queue_are_removed_at_its_end(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from redis import Redis

    from benchmarks.worker.locked import place

    monkeypatch.setenv("REDIS_URL", redis_url)
    with ExitStack() as stack, place(Site(tmp_path, QUICK, stack)) as lent:
        lent.client.set(f"{lent.prefix}lock:a", "1")
        lent.client.set("another's", "1")
        assert lent.durability().startswith("AOF ")
    with Redis.from_url(redis_url, decode_responses=True) as client:
        left = [str(key) for key in client.scan_iter()]
    assert "another's" in left
    assert not [key for key in left if key.startswith(lent.prefix)]
