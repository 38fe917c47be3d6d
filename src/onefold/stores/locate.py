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

VARIABLE = "ONEFOLD_STORE"
FILE = "onefold.toml"
DEFAULT = "onefold.db"


class Located(NamedTuple):
    """A store's URL, and who said so."""

    url: str
    origin: str


def locate(given: str | None = None) -> Located:
    """Say which store is meant: the one given, $ONEFOLD_STORE, the nearest onefold.toml, or ./onefold.db."""
    if given:
        return Located(given, "the caller")
    if url := os.environ.get(VARIABLE):
        return Located(url, f"${VARIABLE}")
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file() and (url := _from_file(folder / FILE)):
            return Located(anchored(url, folder), str(folder / FILE))
    return Located(f"sqlite:///{quote(str(here / DEFAULT))}", "the default")


def announce(located: Located) -> None:
    """Log the path of a default file that is about to be created."""
    path = Path(unquote(located.url.removeprefix("sqlite:///")))
    if located.origin == "the default" and not path.exists():
        import logging

        told = "creating the ledger %s (set %s or write %s to choose another)"
        logging.getLogger("onefold").warning(told, path, VARIABLE, FILE)


def _from_file(file: Path) -> str | None:
    import tomllib

    try:
        settings = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}") from error
    store = settings.get("store")
    if store is not None and not isinstance(store, str):
        raise Misconfigured(f'store in {file} is {store!r}: write a URL, like "sqlite:///{DEFAULT}"')
    return store


def anchored(url: str, folder: Path) -> str:
    """Read a relative file as relative to the folder that names it, not to where the worker was started."""
    scheme, _, rest = url.partition(":///")
    if scheme != "sqlite" or rest.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder))}/{rest}"
