"""Saying and asking. Data goes to stdout, talk to stderr, so that a pipe gets nothing but data."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.frame import Asked
from onefold.cli.problems import Facts, Problem
from onefold.cli.text import shown

NAME_LENGTH = 100


def data(*lines: str) -> None:
    """Print what was asked for."""
    click.echo("".join(f"{shown(line)}\n" for line in lines), nl=False)


def emit(*values: Any) -> None:
    """Print what was asked for as JSON, a line each; ASCII only, so that nothing in it moves a cursor."""
    click.echo("".join(f"{json.dumps(value)}\n" for value in values), nl=False)


def say(*lines: str) -> None:
    """Tell the person something that is not the answer itself."""
    click.echo("".join(f"{shown(line)}\n" for line in lines), nl=False, err=True)


def agreed(asked: Asked, question: str) -> bool:
    """Ask before writing; where nobody can be asked, refuse."""
    if asked.yes:
        return True
    if not sys.stdin.isatty():
        reason = "standard input is no terminal, and -y was not given"
        raise Problem(Code.USAGE, Facts("nobody can be asked", reason, steps=("the same command with -y",)))
    if click.confirm(shown(question), err=True):
        return True
    say("Nothing was done.")
    return False


def operator(by: str | None) -> str:
    """Return who decides: the name given, or the login name."""
    name = _login() if by is None else by.strip()
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise click.UsageError(
            f"--by is {name!r:.80}: give the name of a person, up to {NAME_LENGTH} characters"
        )
    return name


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise click.UsageError("this login has no name: say who decides with --by NAME") from None
