"""The tables of the PostgreSQL store: made, versioned and checked, as flows over the same client.

Forward only. Whoever may not create leaves the database as it is.
"""

from __future__ import annotations

from onefold.core.errors import Misconfigured
from onefold.stores.postgresql.plan import Statement
from onefold.stores.shells import on_client
from onefold.stores.sql import migrations

LOCK = 0x6F6E65666F6C64
"""The advisory lock that migrations take, so that two of them do not meet."""


async def prepare(create: bool, name: str) -> None:
    """Bring the tables to this version, or say why they cannot be used."""
    known = len(migrations("postgresql"))
    version = await schema_version()
    if version > known:
        raise Misconfigured(
            f"{name} was written by a newer Onefold (schema {version}, this one knows {known}): "
            "upgrade with `pip install -U onefold`"
        )
    if version < known and not create:
        raise Misconfigured(f"{name} has no ledger of this version (schema {version} of {known})")
    if version < known:
        await _migrate(known)


async def schema_version() -> int:
    """Return the number of the last migration this database has seen, 0 if none."""
    [[[exists]]] = await on_client(
        "execute_many", [Statement("SELECT to_regclass('onefold_meta') IS NOT NULL")]
    )
    if not exists:
        return 0
    look = Statement("SELECT value FROM onefold_meta WHERE name = 'schema'")
    [rows] = await on_client("execute_many", [look])
    return int(rows[0][0]) if rows else 0


async def _migrate(known: int) -> None:
    await on_client("execute_many", [Statement("SELECT pg_advisory_lock(%s)", (LOCK,))])
    # Another may have been first while we waited for the lock; then there is nothing left to do.
    version = await schema_version()
    steps = [Statement(sql) for script in migrations("postgresql")[version:] for sql in script]
    noted = Statement(
        "INSERT INTO onefold_meta VALUES ('schema', %s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(known),),
    )
    await on_client("execute_many", [*steps, noted])
    await on_client("execute_many", [Statement("SELECT pg_advisory_unlock(%s)", (LOCK,))])
