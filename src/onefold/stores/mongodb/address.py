"""What a mongodb:// URL says: which servers, which database, and how safe an acknowledged write has to be.

It reads the URL, through the driver's own reader, and connects to nothing. No option can make the driver
repeat a command by itself, or read from a server that may be behind.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from onefold.core.errors import Misconfigured

DATABASE = "onefold"

FIXED: dict[str, Any] = {"retryWrites": False, "retryReads": False, "readPreference": "primary"}
"""How a client behaves, whatever the URL says."""

DEFAULTS: dict[str, Any] = {
    "w": "majority",
    "journal": True,
    "appName": "onefold",
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 10_000,
    "waitQueueTimeoutMS": 10_000,
}
"""How a client behaves where the URL does not say. Every wait has an end."""

_LOCAL = ("admin", "config", "local")


class Address(NamedTuple):
    """Everything that is known of a store before it is reached. `name` has no secrets in it."""

    url: str
    name: str
    database: str
    settings: dict[str, Any]
    """What the client is told beside the URL."""


def address(url: str) -> Address:
    """Read `mongodb://[user:password@]host[:port][,host…][/database][?option=…]`, or mongodb+srv://."""
    if re.search(r"[?&]w=0(&|$)", url, re.IGNORECASE):
        raise Misconfigured("w=0 in the store's mongodb:// URL lets no write be answered: leave it out")
    if url.startswith("mongodb+srv:"):
        # What it stands for is asked of the name service, by the driver, when the store is first used.
        hosts, database, options = _by_service(url)
    else:
        read = _read(url)
        hosts = ",".join(_host(*node) for node in read["nodelist"])
        database, options = _database(read), {name.lower() for name in read["options"]}
    if database in _LOCAL:
        raise Misconfigured(f"the database {database} is the server's own: name another in the store's URL")
    defaults = {name: value for name, value in DEFAULTS.items() if name.lower() not in options}
    return Address(url, f"mongodb at {hosts}/{database}", database, FIXED | defaults)


def _read(url: str) -> dict[str, Any]:
    try:
        return dict(parse_uri(url, validate=True, warn=False))
    except (PyMongoError, ValueError, TypeError) as error:
        strange = re.match(r"Unknown option: (\w{1,40})", str(error))
        told = f"has an unknown option {strange[1]}" if strange else "cannot be read"
    # Not told which part: a password that is not escaped ends up in any of them.
    raise Misconfigured(
        f"the store's mongodb:// URL {told}: check hosts, ports and options, "
        "and write @ : / ? # in a password as %40 %3A %2F %3F %23"
    ) from None


def _database(read: dict[str, Any]) -> str:
    if read["collection"]:
        raise Misconfigured("the store's mongodb:// URL names a collection: name a database, as in /onefold")
    return str(read["database"] or DATABASE)


def _host(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if port else host


def _by_service(url: str) -> tuple[str, str, set[str]]:
    rest = url.partition("://")[2]
    where, _, options = rest.partition("?")
    host, _, path = where.rpartition("@")[2].partition("/")
    named = {option.partition("=")[0].lower() for option in options.split("&")}
    return host, path or DATABASE, named
