"""`onefold version`: which Onefold this is. It opens nothing."""

from __future__ import annotations

import sys

import click

from onefold.cli.codes import Code
from onefold.cli.frame import Command, asked
from onefold.cli.talk import data, emit
from onefold.version import __version__


@click.command("version", cls=Command)
def version() -> int:
    """Say which version this is.

    \b
    Example:
        onefold version
    """
    python = ".".join(map(str, sys.version_info[:3]))
    if asked().json:
        emit({"onefold": __version__, "python": python})
    else:
        data(f"onefold {__version__} on Python {python}")
    return Code.FINE
