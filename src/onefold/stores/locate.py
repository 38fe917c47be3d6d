"""Which store is meant when nobody says: the environment, the nearest `onefold.toml`, or `./onefold.db`.

The library and the command line ask here, so that both always find the same one. It reads settings
and opens nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from onefold.core.errors import Misconfigured
from onefold.stores.configured import check_names

VARIABLE = "ONEFOLD_STORE"
FILE = "onefold.toml"
DEFAULT = "onefold.db"
ASSUMED = "the default"
"""The origin of a store that nobody named."""


class Located(NamedTuple):
    """A store's URL, and who said so."""

    url: str
    origin: str


def working_folder() -> Path:
    """Return the working directory as it is now."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path()  # it was deleted; only a relative path needs it, and is refused where it is used


def locate(given: str | None = None, here: Path | None = None) -> Located:
    """Say which store is meant: the one given, $ONEFOLD_STORE, the nearest onefold.toml, or ./onefold.db.

    A relative file is relative to the folder `here`, the working directory unless said otherwise.
    """
    here = here or working_folder()
    if given is not None:
        refuse_empty(given, "the URL of the store")
        return Located(anchored(given, here), "the caller")
    if (url := os.environ.get(VARIABLE)) is not None:
        refuse_empty(url, f"${VARIABLE}")
        return Located(anchored(url, here), f"${VARIABLE}")
    for folder in (here, *here.parents):
        if (folder / FILE).is_file() and (url := _from_file(folder / FILE)) is not None:
            return Located(anchored(url, folder), str(folder / FILE))
    return Located(f"sqlite:///{quote(str(here / DEFAULT))}", ASSUMED)


def refuse_empty(url: str, what: str) -> None:
    """Refuse an empty URL: it comes from an unset variable, and the default would be another store."""
    if not url.strip():
        raise Misconfigured(f'{what} is empty: write a URL, like "sqlite:///{DEFAULT}"')


def missing_default(located: Located) -> Path | None:
    """Return the path of the default file if nobody named a store and the file is not there."""
    path = Path(unquote(located.url.removeprefix("sqlite:///")))
    return path if located.origin == ASSUMED and not path.exists() else None


def announce(located: Located) -> None:
    """Log the path of a default file that is about to be created."""
    if path := missing_default(located):
        import logging

        told = "creating the ledger %s (set %s or write %s to choose another)"
        logging.getLogger("onefold").warning(told, path, VARIABLE, FILE)


def _from_file(file: Path) -> str | None:
    import tomllib

    try:
        text = file.read_text("utf-8")
        settings = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}") from error
    check_names(settings, text, file)
    store = settings.get("store")
    if store is None:
        return None
    if not isinstance(store, str):
        raise Misconfigured(f'store in {file} is {store!r}: write a URL, like "sqlite:///{DEFAULT}"')
    refuse_empty(store, f"store in {file}")
    return store


def anchored(url: str, folder: Path) -> str:
    """Read a relative file as relative to the folder that names it, not to where the worker was started."""
    scheme, _, rest = url.partition(":///")
    name = unquote(rest.partition("?")[0])
    if scheme != "sqlite" or name.startswith("/") or name in ("", ":memory:"):  # the last two are refused
        return url
    return f"sqlite:///{quote(str(folder))}/{rest}"
