"""A ledger with entries in every state, written at known times, and the command on it, in this process.

It asserts nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
from click.testing import CliRunner, Result

from onefold import Key, Ledger, Refused, Terms
from onefold.cli.root import onefold
from onefold.core.redaction import KNOWN
from onefold.runtime import now
from onefold.stores.sqlite import SqliteStore

AT = datetime(2026, 1, 1, tzinfo=UTC)

KILLED = 137
"""The exit code that a shell gives to a process which was killed."""

Happens = Callable[[], Awaitable[object]]
"""Something that happens while a command runs."""


class Effect(Exception):
    """What a staged effect raises."""


def present() -> datetime:
    """Return the time of day by the current runtime, as the command reads it."""
    return datetime.fromtimestamp(now(), UTC)


def ledger(path: Path | str = "onefold.db", at: datetime = AT) -> Ledger:
    """Open a ledger whose store's clock stands still."""
    return Ledger(SqliteStore(path, clock=at.timestamp))


def in_doubt(book: Ledger, key: Key) -> None:
    def effect() -> None:
        raise Effect

    with suppress(Effect):
        book.call(key, effect)


def failed(book: Ledger, key: Key, attempts: int = 1) -> None:
    def effect() -> None:
        raise Refused("not today")

    with suppress(Refused):
        book.call(key, effect, terms=Terms(attempts=attempts, backoff=("1d", "1d")))


def waiting(book: Ledger, key: Key) -> None:
    failed(book, key, attempts=2)


def held(book: Ledger, key: Key) -> None:
    book.claim(key)


def by_hand(book: Ledger, key: Key) -> None:
    book.claim(key).park()


def beyond_memory(book: Ledger, key: Key) -> None:
    book.claim(key, terms=Terms(keep="1d"), at=present() - timedelta(days=2))


def done(book: Ledger, key: Key, receipt: Any = None, keep: str = "forever") -> None:
    book.call(key, lambda: receipt, terms=Terms(keep=keep))


def one_of_each(book: Ledger) -> None:
    """Fill a ledger with one entry of every kind."""
    kinds: list[tuple[Callable[[Ledger, Key], None], str]] = [
        (in_doubt, "A-17"),
        (failed, "A-18"),
        (by_hand, "A-19"),
        (beyond_memory, "A-20"),
        (waiting, "A-21"),
        (held, "A-22"),
        (done, "A-23"),
    ]
    for make, name in kinds:
        make(book, Key("charges", name))


class Cli:
    """The command, run inside this process; standard input is no terminal."""

    def __init__(self) -> None:
        self._hosts = 0

    def __call__(self, *words: str, typed: str | io.BytesIO | None = None, charset: str = "utf-8") -> Result:
        return self._run(CliRunner(charset), words, typed)

    def json(self, *words: str) -> Any:
        return json.loads(self("--json", *words).stdout)

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self("--json", *words).stdout.splitlines()]

    def at_terminal(self, *words: str, typed: str | io.BytesIO = "") -> Result:
        """Run the command for a person at a terminal, who types a text."""
        return self._run(_Terminal(), words, typed)

    def interrupted_after(self, happens: Happens, *words: str, terminal: bool = False) -> Result:
        """Run a command that waits; let something happen meanwhile, and then interrupt the command."""
        with _beside(happens, KeyboardInterrupt()):
            return self.at_terminal(*words) if terminal else self(*words)

    def killed_after(self, happens: Happens, *words: str) -> str:
        """Run a worker; let something happen meanwhile, and then kill the worker. Return its log.

        The ledger in ./onefold.db stays as it is when the worker is killed.
        """
        store, kept = Path("onefold.db"), Path("kept.db")

        async def happens_and_keeps_the_ledger() -> None:
            await happens()
            _copy(store, kept)

        with _beside(happens_and_keeps_the_ledger, SystemExit(KILLED)):
            result = self("run", *words)
        assert result.exit_code == KILLED, result.output
        for suffix in ("-wal", "-shm"):
            store.with_name(store.name + suffix).unlink(missing_ok=True)
        kept.rename(store)
        return result.stderr

    def _run(self, runner: CliRunner, words: tuple[str, ...], typed: str | io.BytesIO | None) -> Result:
        self._hosts += 1
        with _as_a_process(f"host-{self._hosts}"):
            return runner.invoke(onefold, list(words), input=typed)


@contextmanager
def _beside(happens: Happens, end: BaseException) -> Iterator[None]:
    """Let something happen on the event loop while a command runs there, and then end the command."""
    failures: list[BaseException] = []

    async def act() -> None:
        try:
            await happens()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            failures.append(error)
            raise SystemExit(1) from error
        raise end

    task = asyncio.new_event_loop().create_task(act())
    yield
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()  # or asyncio would say that nobody asked for it
    if failures:
        raise failures[0]


def _copy(store: Path, copy: Path) -> None:
    source, target = apsw.Connection(str(store)), apsw.Connection(str(copy))
    with target.backup("main", source, "main") as backup:
        backup.step()
    source.close()
    target.close()


class Answer(io.BytesIO):
    """A text that a person types, after something else happened."""

    def __init__(self, text: str, before: Callable[[], object]) -> None:
        super().__init__(text.encode())
        self._before = before

    def read1(self, size: int | None = -1) -> bytes:
        self._before()
        return super().read1(size)


class _Terminal(CliRunner):
    """Runs a command with terminals as its streams."""

    @contextmanager
    def isolation(self, *args: Any, **options: Any) -> Iterator[tuple[io.BytesIO, io.BytesIO, io.BytesIO]]:
        with super().isolation(*args, **options) as streams:
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.isatty = lambda: True  # type: ignore[method-assign]
            yield streams


@contextmanager
def _as_a_process(host: str) -> Iterator[None]:
    """Undo afterwards what would end with a process: imported code of the user's, logs, known secrets.

    Every process gets a host of its own, because workers are called by their host and process.
    """
    with ExitStack() as undo:
        for owner, name, value in (
            (socket, "gethostname", lambda: host),
            (sys, "path", sys.path[:]),
            (sys, "dont_write_bytecode", True),  # the user's code may change within a second
            (logging.root, "handlers", []),
        ):
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        for logger in (logging.root, logging.getLogger("onefold")):
            undo.callback(logger.setLevel, logger.level)
        undo.callback(logging.captureWarnings, False)
        undo.callback(KNOWN.intersection_update, KNOWN.copy())
        undo.callback(_forget_modules, set(sys.modules), Path.cwd())
        yield


def _forget_modules(before: set[str], folder: Path) -> None:
    """Let go of the modules that were imported from a folder."""
    for name in set(sys.modules) - before:
        if folder in Path(getattr(sys.modules[name], "__file__", None) or "/").parents:
            del sys.modules[name]
