"""The tables of the PostgreSQL store: made, versioned and checked, as flows over the same client.

Forward only. Whoever may not create leaves the database as it is.
"""

from __future__ import annotations

from onefold.stores.postgresql.plan import Statement
from onefold.stores.shells import on_client
from onefold.stores.sql import migrations
from onefold.stores.versions import refuse_other

LOCK = 0x6F6E65666F6C64
"""The advisory lock that migrations take, so that two of them do not meet."""

LOCK_TIMEOUT = "5s"
"""How long a row is waited for that another transaction is writing, where no other setting says."""

PATIENT_LOCKS = f"coalesce(nullif(current_setting('lock_timeout'), '0'), '{LOCK_TIMEOUT}')"
"""The lock timeout to have, as SQL: the one that is set, or ours."""

_SCRIPTS = migrations("postgresql")
# Read from the catalog's table: the name alone may be remembered as unknown from before another made it.
_IS_THERE = Statement("SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('onefold_meta'))")
_NOTE = (
    "INSERT INTO onefold_meta (name, value) VALUES ('schema', %s) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

# Every statement finds its rows by an index. The planner trusts statistics that a young table does not have,
# and would read all of a table that grew since, for every claim.
_AVOIDED = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")
# A look must see what was committed before it began, not before its transaction did: whatever the database's
# default is, a swap reads committed rows.
_MANNERS = Statement(
    f"SELECT set_config('lock_timeout', {PATIENT_LOCKS}, false), "
    "set_config('default_transaction_isolation', 'read committed', false), "
    + ", ".join(f"set_config('{name}', 'off', false)" for name in _AVOIDED)
)


async def settle_in(create: bool, name: str) -> None:
    """Make a connection of Onefold's own ready: its manners, and the tables."""
    await on_client("execute_many", [_MANNERS])
    await prepare(create, name)


async def prepare(create: bool, name: str, joined: bool = False) -> bool:
    """Bring the tables to this version, or say why they cannot be used; say whether they were there.

    Inside a caller's transaction nothing is begun or committed.
    """
    version = await schema_version()
    if version == len(_SCRIPTS):
        return True
    if version < len(_SCRIPTS) and create:
        version = await _migrate(joined)
    refuse_other(name, version, len(_SCRIPTS))
    return False


async def schema_version() -> int:
    """Return the number of the last migration this database has seen, 0 if none."""
    [[[exists]]] = await on_client("execute_many", [_IS_THERE])
    if not exists:
        return 0
    look = Statement("SELECT value FROM onefold_meta WHERE name = 'schema'")
    [rows] = await on_client("execute_many", [look])
    return int(rows[0][0]) if rows else 0


async def _migrate(joined: bool) -> int:
    """Make what is missing, in one transaction, alone; return the version that stands then."""
    begin, commit = ([], []) if joined else ([Statement("BEGIN")], [Statement("COMMIT")])
    await on_client("execute_many", [*begin, Statement("SELECT pg_advisory_xact_lock(%s)", [LOCK])])
    # Another may have been first while we waited for the lock.
    version = await schema_version()
    steps = [Statement(sql) for script in _SCRIPTS[version:] for sql in script]
    if steps:
        steps.append(Statement(_NOTE, [str(len(_SCRIPTS))]))
    if steps or commit:
        await on_client("execute_many", [*steps, *commit])
    return max(version, len(_SCRIPTS))
