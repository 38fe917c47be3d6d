"""Forks beside threads that write: whatever a thread of the parent was doing, the child can claim."""

import subprocess
import sys
import threading

import pytest

from onefold.runtime.process import PROCESS
from onefold.stores.homes import INHERITED, OfProcess

CHILDREN = {"postgresql": 100, "mariadb": 40, "redis": 40, "mongodb": 20, "dynamodb": 20, "cassandra": 4}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.store(name)) for name in CHILDREN])
def test_all_children_that_are_forked_while_four_threads_write_finish(
    name: str, request: pytest.FixtureRequest
):
    url = request.getfixturevalue(f"{name}_url")
    command = [sys.executable, "-W", "ignore", "-m", "tests.servers.stores.forking", url, str(CHILDREN[name])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)

    assert ran.returncode == 0, ran.stdout + ran.stderr


class Links(OfProcess[str]):
    """A client that can be looked into."""

    def leave_parent(self) -> tuple[threading.Lock, str | None]:
        self._leave_parent()
        return self._lock, self._link

    def hold(self, link: str) -> None:
        self._link = link


def test_threads_of_a_child_that_come_at_the_same_moment_agree_on_one_new_lock(
    monkeypatch: pytest.MonkeyPatch,
):
    client = Links()
    theirs, _ = client.leave_parent()
    client.hold("the parent's")
    monkeypatch.setattr(PROCESS, "number", PROCESS.number + 1)  # as after a fork
    found: list[tuple[threading.Lock, str | None]] = []
    together = threading.Barrier(8)

    def come() -> None:
        together.wait()
        found.append(client.leave_parent())

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {(id(lock), link) for lock, link in found} == {(id(found[0][0]), None)}
    assert found[0][0] is not theirs
    assert INHERITED.pop() == "the parent's"
