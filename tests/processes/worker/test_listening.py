"""A worker answers at a real port: what the port of the virtual network cannot show."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import anyio
import anyio.to_thread
import pytest

from onefold.core.errors import Misconfigured
from onefold.worker import Worker
from onefold.worker.listening import Listening, bound
from onefold.worker.observing import Observation
from tests.fast.worker.stage import FarSide, Feed, pipeline, store
from tests.waiting import PATIENCE


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def test_a_worker_answers_at_the_port_that_it_took_and_nobody_else_gets_it():
    worker = Worker([pipeline(Feed(finite=False), FarSide())], store=store()[1])
    listening = Listening(bound("0", "--listen"), Observation(worker))
    worker.beside.append(listening.attend)
    port = listening.url.rpartition(":")[2]
    with pytest.raises(Misconfigured, match=f"port {port} cannot be had: Address already in use"):
        bound(port, "--listen")

    async def both() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(worker.arun)
            answer = await anyio.to_thread.run_sync(asked, f"{listening.url}/health")
            worker.stop()
        return answer

    assert anyio.run(both) == {"alive": True, "worker": worker.name, "stopping": False}
