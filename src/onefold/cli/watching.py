"""How `status --watch` shows itself: drawn in place on a terminal, as lines everywhere else.

The only module that imports rich, and only to draw.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from onefold.cli import pipelines
from onefold.cli.opened import Opened
from onefold.cli.status import HEAD, Account, as_json, headline, notes, rows
from onefold.cli.talk import data, emit
from onefold.cli.text import shown
from onefold.runtime import current

Show = Callable[[Account, Opened], None]


def _present() -> datetime:
    return datetime.fromtimestamp(current().time(), UTC)


@contextmanager
def screen(json: bool) -> Iterator[Show]:
    """Give a way to show accounts one after the other."""
    if not json and sys.stdout.isatty():
        with _drawn() as show:
            yield show
    else:
        yield _lines(json)


def _lines(json: bool) -> Show:
    """Print a line whenever something changed."""
    last: list[str] = []

    def show(account: Account, store: Opened) -> None:
        told = as_json(account, store)
        if last == [str(told)]:
            return
        last[:] = [str(told)]
        if json:
            emit(told)
        else:
            data(f"{_present():%Y-%m-%d %H:%M:%SZ}  {headline(account)}, {account.silent:,} silent")

    return show


@contextmanager
def _drawn() -> Iterator[Show]:
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    def drawing(account: Account, store: Opened) -> Group:
        # Text, not str: what is stored must not be read as rich's own markup.
        board = Table(box=None, pad_edge=False)
        for at, name in enumerate(HEAD):
            board.add_column(name, justify="right" if 0 < at < len(HEAD) - 1 else "left")
        for row in rows(account):
            board.add_row(*(Text(shown(cell)) for cell in row))
        top = f"{store.safe_url}  {_present():%H:%M:%SZ}  {headline(account)}"
        dim = (Text(shown(note), style="dim") for note in notes(account))
        return Group(Text(shown(top)), board, *running(account), *dim)

    def running(account: Account) -> list[Text]:
        if not account.pipelines:
            return []
        return [Text(""), *(Text(shown(line)) for line in pipelines.drawn(account.pipelines))]

    with Live(auto_refresh=False, transient=False) as live:
        yield lambda account, store: live.update(drawing(account, store), refresh=True)
