"""No part of a password reaches a message, whatever characters it has and whoever reads its URL."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold import stores
from onefold.core.endpoints import check_url
from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.redaction import ESCAPED, host_of, safe_url, scrubbed
from onefold.runtime.http import shown
from onefold.sinks.http import Http
from onefold.sinks.mail import Mail
from onefold.sources.web import Manners, Web
from onefold.tables import Database


def store(url: str) -> str:
    opened: Any = stores.connect(url)
    return str(getattr(opened.client, "name", None) or opened.client.address.name)


def table(url: str) -> str:
    database = Database(url)
    driver = import_module(f"onefold.tables.{database.kind}")
    reader = getattr(driver, "_where", None) or driver._parameters
    reader(url)
    return database.kind


def endpoint(url: str) -> str:
    check_url(url, ["https"])
    return host_of(url)


def site(url: str) -> str:
    return shown(Web(url, {}, Manners()).url)


def service(url: str) -> str:
    Http(url)
    return host_of(url)


def post(url: str) -> str:
    Mail(url, sender="a@example.org", subject=str, text=str)
    return ""


READERS: dict[str, tuple[Callable[[str], str], str]] = {
    "postgresql": (store, "psycopg"),
    "mariadb": (store, "pymysql"),
    "redis": (store, "redis"),
    "rediss": (store, "redis"),
    "mongodb": (store, "pymongo"),
    "mongodb+srv": (store, "pymongo"),
    "cassandra": (store, "cassandra"),
    "dynamodb": (store, "boto3"),
    "nosuchstore": (store, "onefold"),
    "table postgresql": (table, "psycopg"),
    "table mariadb": (table, "pymysql"),
    "site https": (site, "httpx2"),
    "service https": (service, "httpx2"),
    "endpoint https": (endpoint, "onefold"),
    "post smtps": (post, "onefold"),
}

# No small letters: those of a message are never those of a password, so that each one found is a leak.
PASSWORDS = st.text("0123456789QXZ@/:?#[]%&=+;,!$~ '\"\\ÄЖ", min_size=4, max_size=16)
SHAPES = ["ann:{}@db.example/shop", ":{}@db.example/0", "ann:{}@db.example:7000/shop?timeout=5"]


def said(error: BaseException | None) -> str:
    """Write an error with all that a traceback would show of what was behind it."""
    if error is None:
        return ""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "".join(traceback.format_exception_only(error)) + said(behind)


def leaks(message: str, password: str) -> list[str]:
    known = message.replace(ESCAPED, "")
    parts = {password[at : at + 4] for at in range(len(password) - 3)}
    return sorted(part for part in parts if part in known)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reader", READERS)
def test_no_part_of_a_password_reaches_a_message(reader, shape):
    read, library = READERS[reader]
    pytest.importorskip(library, reason=f"{library} is not installed: it comes with the test servers")
    scheme = reader.rpartition(" ")[2]

    @settings(max_examples=60)
    @given(PASSWORDS)
    def hold(password: str) -> None:
        url = f"{scheme}://{shape.format(password)}"
        try:
            message = read(url)
        except OnefoldError as error:
            message = said(error)
        assert not leaks(message, password), message
        shown = safe_url(url) + scrubbed(f"cannot use {url}: {url!r}", url)
        assert not leaks(shown, password), shown

    hold()


@pytest.mark.parametrize("password", ["pa/ssword", "12/3456", "pa?ss=1", "12#3456"])
@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "redis", "mongodb", "cassandra"])
def test_the_error_says_which_characters_to_escape(scheme, password):
    library = READERS[scheme][1]
    pytest.importorskip(library, reason=f"{library} is not installed: it comes with the test servers")

    with pytest.raises(Misconfigured, match=r"write @ : / .* as %40 %3A %2F"):
        stores.connect(f"{scheme}://ann:{password}@db.example/0")


@pytest.mark.parametrize("url", ["ann:QX12@db.example/0", "QX12ZZ@db.example"])
def test_a_url_without_a_scheme_is_not_quoted(url):
    with pytest.raises(Misconfigured) as raised:
        stores.connect(url)

    assert "QX12" not in said(raised.value)
    assert "QX12" not in safe_url(url)
