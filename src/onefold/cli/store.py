"""`onefold store`: the schema of a store, and its hygiene."""

from __future__ import annotations

import click

from onefold.cli.codes import Code
from onefold.cli.frame import Command, Group, asked
from onefold.cli.opened import found_store, opened, unusable
from onefold.cli.talk import agreed, emit, say
from onefold.cli.text import counted
from onefold.core.errors import Misconfigured
from onefold.core.protocol import purge as purge_flow
from onefold.stores import ddl

COMMANDS = {"sql": "onefold.cli.store:sql", "purge": "onefold.cli.store:purge"}


@click.group("store", cls=Group, late=COMMANDS)
def store() -> None:
    """Print a store's schema, or clean up what it may forget.

    \b
    Example:
        onefold store sql sqlite:///onefold.db
    """


@click.command("sql", cls=Command)
@click.argument("url", required=False, metavar="[URL]")
def sql(url: str | None) -> int:
    """Print the schema of a store, without connecting.

    \b
    Example:
        onefold store sql sqlite:///onefold.db
    """
    options = asked()
    located = found_store(options, url)
    try:
        text = ddl(located.url)
    except Misconfigured as error:
        raise unusable(located, error) from error
    if options.json:
        emit({"sql": text})
    elif text:
        click.echo(text.rstrip("\n"))
    else:
        say("This kind of store has no schema.")
    return Code.FINE


@click.command("purge", cls=Command)
@click.option("--scope", metavar="SCOPE", help="Only this scope.")
def purge(scope: str | None) -> int:
    """Remove done entries whose `keep` ran out.

    Walks over everything. What is remembered for ever, and what is open, stays.

    \b
    Example:
        onefold store purge -y
    """
    options = asked()
    with opened(options) as place:
        if not agreed(options, f"Remove what {place.safe_url} need not remember any more?"):
            return Code.FAILED
        removed = place.run(purge_flow(scope), "no effect ran; some old entries may have been removed")
    if options.json:
        emit({"removed": removed})
    else:
        click.echo(f"{counted(removed, 'entry', 'entries')} removed")
    return Code.FINE
