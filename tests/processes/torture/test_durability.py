"""A durability run that is told to stop. What it counts on servers is tested in test_on_servers.py."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from onefold.testing.torture.durability import durability


def alive() -> set[threading.Thread]:
    """Return the threads that a process waits for at its end; heartbeats are none of them."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


@pytest.mark.store("sqlite")
def test_a_run_that_is_ended_while_the_server_restarts_ends_its_writers(tmp_path: Path):
    before = alive()

    def ended() -> None:
        raise SystemExit(128 + 15)

    with pytest.raises(SystemExit):
        durability("sqlite", f"sqlite:///{tmp_path / 'o.db'}", 1, ended, lambda kill: None)

    assert alive() == before
