"""Makes the tables of listings, or brings existing ones to what they must be: shows the SQL, then applies it.

python -m onefold.apps.listings               show what would be done to the database of onefold.toml
python -m onefold.apps.listings --apply       do it, all or nothing
python -m onefold.apps.listings URL [--apply] the same for a database that is named

In a file of SQLite, --apply also makes the ledger that `onefold store sql` prints: there both must be one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from onefold.apps.listings.schema import database_of, fresh, migrate, statements
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.tables import Database
from onefold.worker.configuration import looked_up, nearest
from onefold.worker.secret import masked


def main(arguments: Sequence[str]) -> int:
    """Show, and with --apply do."""
    named = [one for one in arguments if not one.startswith("-")]
    apply = "--apply" in arguments
    if len(named) > 1 or [one for one in arguments if one.startswith("-") and one != "--apply"]:
        sys.stderr.write("usage: python -m onefold.apps.listings [URL] [--apply]\n")
        return 2
    try:
        url = named[0] if named else _configured()
        if is_missing(url):
            return _make(url, apply)
        return _show(database_of(url), apply)
    except OnefoldError as error:
        sys.stderr.write(f"{masked(str(error))}\n")
        return 1


def _show(database: Database, apply: bool) -> int:
    try:
        needed = statements(database)
        for statement in needed:
            sys.stdout.write(f"{statement};\n")
        if apply:
            migrate(database, needed)  # also where nothing is needed: the ledger may be missing
        done = "done" if apply else "nothing was changed: add --apply to do it"
        sys.stderr.write(f"{done}\n" if needed else "the tables are as they must be\n")
        return 0
    finally:
        database.close()


def _configured() -> str:
    found = nearest()
    section = found.apps.get("listings")
    given = section.values.get("database") if section else None
    if given is None:
        raise Misconfigured(
            "no database is named: write database = … below [apps.listings] in onefold.toml, "
            "or: python -m onefold.apps.listings sqlite:///listings.db"
        )
    return str(looked_up(given, "database of [apps.listings]", found.folder))


def is_missing(url: str) -> bool:
    """Say whether a URL names a file of SQLite that is not there yet."""
    return url.startswith("sqlite:///") and not _file(url).exists()


def _file(url: str) -> Path:
    return Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])).absolute()


def _make(url: str, apply: bool) -> int:
    if apply:
        _file(url).touch()  # an empty file is a database without tables
        return _show(database_of(url), apply)
    for statement in fresh("sqlite"):
        sys.stdout.write(f"{statement};\n")
    sys.stderr.write(f"there is no file {_file(url)} yet: add --apply to make it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
