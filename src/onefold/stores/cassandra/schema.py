"""The tables of a Cassandra ledger: made, versioned and checked, as flows over the same client; and printed.

Forward only. Whoever may not create leaves the keyspace as it is. The keyspace is never made here: how many
copies of a ledger there are is for its owner to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from onefold.core.errors import Misconfigured, OnefoldError
from onefold.stores.cassandra.address import Address
from onefold.stores.cassandra.errors import HalfMade, NoTable
from onefold.stores.cassandra.rows import Outcome
from onefold.stores.shells import on_client

VERSION = 1

TABLES = ("entries", "open", "meta")

NEW_TABLES = frozenset({"schema", "note"})
"""Statements about the tables themselves, which are asked when these may not be there yet."""

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)

_KEYSPACE = """\
-- The keyspace is yours to make, with as many copies as you want: three in each data centre outlive a node.
CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3};
USE shop;

"""


@cache
def _text(file: str) -> str:
    return (Path(__file__).parent / file).read_text("utf-8")


def statements(address: Address) -> dict[str, str]:
    """Return what is asked, by name, on the tables of this ledger."""
    text = _named(_text("statements.cql"), address.table)
    return {name: _bare(body) for name, body in _NAMED.findall(text.replace("{version}", str(VERSION)))}


def definitions(address: Address) -> list[str]:
    """Return the statements that make the tables; made twice they change nothing."""
    return [_bare(each) for each in _named(_text("tables.cql"), address.table).split(";\n") if _bare(each)]


def printable() -> str:
    """Return the schema to be run by hand; its last line keeps Onefold from making it again."""

    def table(name: str) -> str:
        return f"onefold_{name}"

    note = f"INSERT INTO onefold_meta (name, value) VALUES ('schema', '{VERSION}') IF NOT EXISTS;\n"
    return f"{_KEYSPACE}{_named(_text('tables.cql'), table)}\n{note}"


async def prepare(create: bool, address: Address) -> None:
    """Make sure that the tables are there and are of this version, or say why they cannot be used."""
    version = await _first_look(create, address)
    if not version and create:
        await _make(address)
        version = await schema_version(address)
    if version > VERSION:
        raise Misconfigured(
            f"{address.name} was made by a newer Onefold (schema {version}, this one knows {VERSION}): "
            "upgrade with `pip install -U onefold`"
        )
    if version < VERSION:
        raise Misconfigured(f"{address.name} has no ledger in it: a worker makes it when it first uses it")


async def _first_look(create: bool, address: Address) -> int:
    """Take what another is making for not there yet: to make it too does no harm, and takes its time."""
    try:
        return await schema_version(address)
    except HalfMade:
        if not create:
            raise
        return 0


async def schema_version(address: Address) -> int:
    """Return the version of the tables, 0 if there are none."""
    outcome: Outcome = await on_client("query", statements(address)["schema"])
    if isinstance(outcome, NoTable):
        return 0
    if isinstance(outcome, OnefoldError):
        raise outcome
    return int(outcome[0]["value"]) if outcome else 0


async def _make(address: Address) -> None:
    """Make the tables, and note their version last: who dies on the way has made none that count."""
    for definition in [*definitions(address), statements(address)["note"]]:
        outcome: Outcome = await on_client("define", definition)
        if isinstance(outcome, OnefoldError):
            raise outcome


def _named(text: str, table: Callable[[str], str]) -> str:
    for name in TABLES:
        text = text.replace(f"{{{name}}}", table(name))
    return text


def _bare(text: str) -> str:
    return re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip().rstrip(";")
