"""The tree of commands. It imports none of them: each is loaded when it is called."""

from __future__ import annotations

import click

from onefold.cli.frame import Root
from onefold.version import __version__

COMMANDS = {
    "run": "onefold.cli.run:run",
    "status": "onefold.cli.status:status",
    "list": "onefold.cli.listing:list_",
    "why": "onefold.cli.why:why",
    "resolve": "onefold.cli.decisions:resolve",
    "retry": "onefold.cli.decisions:retry",
    "cursors": "onefold.cli.cursors:cursors_",
    "coverage": "onefold.cli.coverage:coverage",
    "sources": "onefold.cli.sources:sources",
    "settings": "onefold.cli.settings:settings",
    "apps": "onefold.cli.apps:apps",
    "store": "onefold.cli.store:store",
    "doctor": "onefold.cli.doctor:doctor",
    "demo": "onefold.cli.demo:demo",
    "version": "onefold.cli.versions:version",
}


@click.group("onefold", cls=Root, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="onefold %(version)s")
def onefold() -> None:
    """Run workers, look at a ledger, and decide what only a person can decide.

    The store is the one given by --store, else $ONEFOLD_STORE, else `store` in the nearest
    onefold.toml upwards, else ./onefold.db. Looking never creates a store. Times are UTC.

    \b
    Exit codes: 0 fine, 1 failed, 2 usage, 3 needs a person,
                4 store unreachable, 5 unsafe, 130 interrupted.

    \b
    Example:
        onefold status
    """
