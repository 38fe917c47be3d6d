"""The words in which tests of stores speak: keys, changes that claim them, and what replies show."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from onefold.core.entry import Change, Entry, Reply, Seen
from onefold.core.errors import OnefoldError, Unreachable
from onefold.core.key import Key
from onefold.core.ports import Store
from onefold.testing.contract.words import entry, in_order
from tests.launchers.server import Launched

NEW = Key("orders", "new")
PASSWORD = "only-for-tests"
"""In the URL of every server that has users; it must be in nothing that is told."""


def keys(count: int, scope: str = "orders") -> list[Key]:
    return sorted((Key(scope, number) for number in range(count)), key=lambda key: key.id)


def claims(names: Iterable[Key], token: str = "ann", **fields: Any) -> list[Change]:
    """Ask for claims under these keys."""
    return in_order(Change(name, None, entry("held", token, label=name.label, **fields)) for name in names)


def inserts(names: Iterable[Key], **fields: Any) -> list[Change]:
    """Claim keys with nothing but what a claim needs."""
    wanted = Entry("held", token="ann", lease=60.0, **fields)
    return in_order(Change(name, None, wanted) for name in names)


def stored(reply: Reply) -> Entry:
    """Read what a reply shows, where something must be stored."""
    assert isinstance(reply, Seen), reply
    assert reply.entry is not None
    return reply.entry


def tokens(replies: Iterable[Reply]) -> list[str | None]:
    """Read who wrote what replies show."""
    return [reply.entry.token if isinstance(reply, Seen) and reply.entry else None for reply in replies]


def token(reply: Reply) -> str | None:
    """Say whose write stands."""
    assert isinstance(reply, Seen)
    return reply.entry.token if reply.entry else None


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


def at(url: str, **parts: str) -> str:
    """Change a URL: another port, user, password or database."""
    whole = urlsplit(url)
    user, password = parts.get("user", whole.username), parts.get("password", whole.password)
    where = f"{user}:{password}@{whole.hostname}:{parts.get('port', whole.port)}"
    return whole._replace(netloc=where, path=parts.get("path", whole.path)).geturl()


def told(error: BaseException) -> str:
    """Return all that a traceback of an error shows."""
    return "".join(traceback.format_exception(error))


def refused(attempt: Callable[[], object], kind: type[OnefoldError]) -> str:
    """Return the sentence with which something was refused; it keeps the secrets, also in a traceback."""
    with pytest.raises(kind) as raised:
        attempt()
    assert raised.value.ran == "no"
    assert PASSWORD not in told(raised.value)
    assert "only-for-guests" not in told(raised.value)
    return str(raised.value)


@contextmanager
def stopped(server: Launched) -> Iterator[None]:
    """Let a server hear and not answer."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def claimed_until_killed(own: Launched, store: Store, turn: int) -> dict[Key, int]:
    """Claim batch after batch while the server is killed; return what was acknowledged."""
    told: dict[Key, int] = {}
    started = threading.Event()

    def kill() -> None:
        started.wait()
        own.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    for batch in range(1000):
        changes = claims(keys(30, f"{turn}.{batch}"))
        try:
            replies = store.swap(changes)
        except Unreachable:
            break
        told |= {
            change.key: stored(reply).version
            for change, reply in zip(changes, replies, strict=True)
            if isinstance(reply, Seen)
        }
        if batch == 3:
            started.set()
    killer.join()
    return told
