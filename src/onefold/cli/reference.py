"""Writes docs/reference/commands.md from the commands' own help: `python -m onefold.cli.reference > FILE`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from onefold.cli.codes import MEANING
from onefold.cli.root import onefold

WIDTH = 100

INTRODUCTION = """\
# Commands

This page is made from `onefold --help` and the help of every command; a test compares them.

Data goes to stdout, talk to stderr. With `--json` an error is one object on stderr, too.
`--store`, `--json`, `-y` and `--debug` are accepted anywhere on the line. Times are UTC.
A store that is not there is exit code 4; only `onefold run` and `onefold settings put` create one.

| exit code | meaning |
|---|---|
"""


def reference() -> str:
    """Return the page."""
    codes = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANING.items())
    return INTRODUCTION + codes + "".join(_section(path, text) for path, text in pages())


def pages() -> Iterator[tuple[str, str]]:
    """Give the path and the help of every command, parents before their children."""
    settings = {**onefold.context_settings, "terminal_width": WIDTH}
    with click.Context(onefold, info_name="onefold", **settings) as root:
        yield from _pages(root)


def _pages(context: click.Context) -> Iterator[tuple[str, str]]:
    command = context.command
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, "a group knows the commands it lists"
            with click.Context(child, parent=context, info_name=name) as inner:
                yield from _pages(inner)


def _section(path: str, text: str) -> str:
    return f"\n## `{path}`\n\n```text\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
