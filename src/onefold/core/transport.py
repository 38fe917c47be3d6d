"""How a connection is protected: whether a host is this machine, and when a server's certificate is checked.

Rule: where a URL asks for TLS, the certificate and the host name are verified (docs/decisions/0026). Pure:
it reads no file; callers say which files exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Literal

Protection = Literal["verified", "encrypted", "plain"]
"""Encrypted to a server whose certificate and name were checked; encrypted to anybody; or not encrypted."""

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Gentoo
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, Red Hat
    "/etc/pki/tls/certs/ca-bundle.crt",  # older ones of both
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine, macOS
)
"""Where systems keep the authorities that they trust."""

_REFUSED = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|does not match host name", re.I)
_OTHER_NAME = re.compile(r"(?:hostname|IP address) mismatch|does not match host name", re.I)
_OUT_OF_DATE = re.compile(r"certificate has expired|certificate is not yet valid", re.I)


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine by its name or number: loopback, or the path of a Unix socket."""
    if host == "" or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return bool(re.fullmatch(r"(?:.+\.)?localhost\.?", host, re.IGNORECASE))


def distrust(told: str, trust: str) -> str:
    """Say what is wrong with a server's certificate, and what to do; empty if that is not the matter.

    `told` is the error of a client that uses OpenSSL; `trust` says how a URL names an authority.
    """
    if not _REFUSED.search(told):
        return ""
    if _OTHER_NAME.search(told):
        return "shows a certificate for another host name: write the name that it is for into the URL"
    if _OUT_OF_DATE.search(told):
        return "shows a certificate that is out of date: renew it, or set this machine's clock"
    return f"shows a certificate that is not trusted: {trust}"


def verifying(
    given: Mapping[str, Any], own: Iterable[str], system: str | None, exists: Callable[[str], bool]
) -> dict[str, Any]:
    """Return parameters of libpq in which TLS that is asked for is verified.

    To libpq itself `sslmode=require` means TLS with anybody. Here it means `verify-full`, with the
    authorities of `sslrootcert`, of the user's `own` files or of the `system`. `sslrootcert=system` is
    looked up here: the OpenSSL inside of psycopg's wheels does not know where systems keep theirs.
    """
    mode, root = given.get("sslmode"), given.get("sslrootcert")
    if mode != "require" and root != "system":
        return dict(given)
    if not root:
        root = next(filter(exists, own), "system")
    if root == "system":
        root = next(filter(exists, (system or "", *BUNDLES)), "system")
    return {**given, "sslmode": "verify-full", "sslrootcert": root}
