"""Opens websockets. The only module that knows the websocket client.

It follows no redirect and retries nothing: an address that was checked must not lead to one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onefold.core.endpoints import is_private
from onefold.core.errors import Misconfigured
from onefold.core.terms import Seconds

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    Connection = ClientConnection


class Opening(NamedTuple):
    """How a connection is opened, and how large its messages may be."""

    url: str
    headers: Mapping[str, str]
    within: Seconds
    """In which the connection must be open."""
    closing: Seconds
    """What the service has for saying goodbye."""
    largest: int
    """Bytes of one message."""


async def connect(opening: Opening, proxies: bool = True) -> Connection:
    """Open a connection, through a proxy of the environment if allowed; raise what the client raises."""
    host = urlsplit(opening.url).hostname or ""
    connection: Connection = await _connector()(
        opening.url,
        additional_headers=opening.headers,
        open_timeout=opening.within,
        close_timeout=opening.closing,
        ping_interval=None,
        max_size=opening.largest,
        # A proxy of the environment is for the outside.
        proxy=True if proxies and not is_private(host) else None,
    )
    return connection


def check_installed() -> None:
    """Refuse a websocket whose package is missing; a worker would take it for a connection to try again."""
    _connector()


def _connector() -> Any:
    try:
        from websockets.asyncio.client import connect as library
    except ImportError:
        raise Misconfigured(
            'a websocket needs the package websockets: pip install "onefold[worker]"'
        ) from None

    class Connect(library):
        """Follows no redirect."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Connect
