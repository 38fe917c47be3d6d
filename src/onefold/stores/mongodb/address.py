"""What a mongodb:// URL says: which servers, which database, and how safe an acknowledged write has to be.

It reads the URL, through the driver's own reader, and connects to nothing. No option can make the driver
repeat a command by itself, or read from a server that may be behind.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from onefold.core.errors import Misconfigured
from onefold.core.redaction import ESCAPED, check_login
from onefold.core.transport import Protection

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

_MEAN_TLS = ("tlscafile", "tlscertificatekeyfile", "tlscrlfile")
_FILES = ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")
_TRUST_ANYBODY = ("tlsinsecure", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames")

_LOCAL = ("admin", "config", "local")


class Address(NamedTuple):
    """Everything that is known of a store before it is reached. `name` has no secrets in it."""

    url: str
    name: str
    database: str
    settings: dict[str, Any]
    """What the client is told beside the URL."""
    hosts: tuple[str, ...] = ()
    protection: Protection = "plain"


def address(url: str) -> Address:
    """Read `mongodb://[user:password@]host[:port][,host…][/database][?option=…]`, or mongodb+srv://."""
    check_login(url, "the store's mongodb:// URL")
    if re.search(r"[?&]w=0(&|$)", url, re.IGNORECASE):
        raise Misconfigured("w=0 in the store's mongodb:// URL lets no write be answered: leave it out")
    if url.startswith("mongodb+srv:"):
        # What it stands for is asked of the name service, by the driver, when the store is first used.
        hosts, database, options = _by_service(url)
        names: tuple[str, ...] = (hosts,)
    else:
        read = _read(url)
        hosts = ",".join(_host(*node) for node in read["nodelist"])
        names = tuple(str(node[0]) for node in read["nodelist"])
        database = _database(read)
        options = {name.lower(): str(value) for name, value in read["options"].items()}
    if database in _LOCAL:
        raise Misconfigured(f"the database {database} is the server's own: name another in the store's URL")
    defaults = {name: value for name, value in DEFAULTS.items() if name.lower() not in options}
    defaults |= _placed(options)
    name, secure = f"mongodb at {hosts}/{database}", url.startswith("mongodb+srv:")
    return Address(url, name, database, FIXED | defaults, names, _protection(options, secure))


def _placed(options: dict[str, str]) -> dict[str, str]:
    """Name files by their whole paths: the process may change its folder later."""
    return {name: os.path.abspath(options[name.lower()]) for name in _FILES if name.lower() in options}


def _protection(options: dict[str, str], secure: bool) -> Protection:
    """Say what the driver makes of the options for TLS; an option about it turns it on, and +srv does."""
    options = {name: value.lower() for name, value in options.items()}
    said = options.get("tls", options.get("ssl"))
    secure = any(name in options for name in _MEAN_TLS) if said is None and not secure else said != "false"
    if not secure:
        return "plain"
    return "encrypted" if any(options.get(name) == "true" for name in _TRUST_ANYBODY) else "verified"


def _read(url: str) -> dict[str, Any]:
    try:
        return dict(parse_uri(url, validate=True, warn=False))
    except (PyMongoError, ValueError, TypeError) as error:
        strange = re.match(r"Unknown option: (\w{1,40})", str(error))
        told = f"has an unknown option {strange[1]}" if strange else "cannot be read"
    # Not told which part: a password that is not escaped ends up in any of them.
    raise Misconfigured(
        f"the store's mongodb:// URL {told}: check hosts, ports and options, and {ESCAPED}"
    ) from None


def _database(read: dict[str, Any]) -> str:
    if read["collection"]:
        raise Misconfigured("the store's mongodb:// URL names a collection: name a database, as in /onefold")
    return str(read["database"] or DATABASE)


def _host(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if port else host


def _by_service(url: str) -> tuple[str, str, dict[str, str]]:
    rest = url.partition("://")[2]
    where, _, options = rest.partition("?")
    host, _, path = where.rpartition("@")[2].partition("/")
    pairs = (option.partition("=") for option in options.split("&"))
    return host, path or DATABASE, {name.lower(): unquote(value) for name, _, value in pairs}
