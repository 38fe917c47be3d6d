"""The tables of the MariaDB store: made, versioned and checked, as flows over the same client.

Forward only. Whoever may not create leaves the database as it is.
"""

from __future__ import annotations

from onefold.core.errors import Locked
from onefold.stores.mariadb.plan import COMMIT, Statement
from onefold.stores.shells import on_client
from onefold.stores.sql import migrations, statements
from onefold.stores.versions import refuse_other

LOCK_SECONDS = 5
"""How long a row is waited for that another transaction is writing, where no shorter setting says."""

_SCRIPTS = migrations("mariadb")
_IS_THERE = Statement(
    "SELECT COUNT(*) FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name = 'onefold_meta'"
)
_VERSION = Statement("SELECT value FROM onefold_meta WHERE name = 'schema'")
_NOTE = "REPLACE INTO onefold_meta (name, value) VALUES ('schema', %s)"
# A table of this name may be somebody else's: what every call reads must be there before the work is noted.
_ENTRIES = Statement(statements("mariadb")["get"], ["[]"])
# Names of locks are short, and shared by all databases of a server.
_NAME = "CONCAT('onefold ', MD5(DATABASE()))"

# Whatever the server's defaults are: nothing is cut to fit, a look sees what was committed before it began,
# and no wait is for ever.
_MANNERS = (
    Statement(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, "
        f"innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, {LOCK_SECONDS}), "
        f"lock_wait_timeout = LEAST(@@lock_wait_timeout, {LOCK_SECONDS})"
    ),
    Statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
)


async def settle_in(create: bool, name: str) -> None:
    """Make a new connection ready: its manners, and the tables."""
    await on_client("execute_many", _MANNERS)
    await prepare(create, name)


async def prepare(create: bool, name: str) -> None:
    """Bring the tables to this version, or say why they cannot be used."""
    version = await schema_version()
    if version < len(_SCRIPTS) and create:
        version = await _migrate(name)
    refuse_other(name, version, len(_SCRIPTS))


async def schema_version() -> int:
    """Return the number of the last migration this database has seen, 0 if none."""
    [[[exists]]] = await on_client("execute_many", [_IS_THERE])
    if not exists:
        return 0
    [rows] = await on_client("execute_many", [_VERSION])
    return int(rows[0][0]) if rows else 0


async def _migrate(name: str) -> int:
    """Make what is missing, alone; return the version that stands then.

    Who dies on the way leaves a part, without the note; the next one finds it and goes on.
    """
    [[[taken]]] = await on_client("execute_many", [Statement(f"SELECT GET_LOCK({_NAME}, {LOCK_SECONDS})")])
    if not taken:
        raise Locked(f"{name}: another worker is making the tables; nothing was written")
    # Another may have been first while we waited for the lock.
    version = await schema_version()
    steps = [Statement(sql) for script in _SCRIPTS[version:] for sql in script]
    if steps:
        note = Statement(_NOTE, [str(len(_SCRIPTS))])
        # A caller's connection, joined while no transaction was under way, need not commit by itself.
        await on_client("execute_many", [*steps, _ENTRIES, note, COMMIT])
    await on_client("execute_many", [Statement(f"SELECT RELEASE_LOCK({_NAME})")])
    return max(version, len(_SCRIPTS))
