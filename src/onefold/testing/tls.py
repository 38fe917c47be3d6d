"""TLS on the virtual network: asyncio's own layer between a protocol and a connection in memory.

Timeouts of a handshake are virtual. The bytes are not drawn from the loop's seed, because OpenSSL draws keys
and signatures from the system: they differ from run to run, and their number by a few. The order and the
moments of events do not depend on them. OpenSSL also asks the clock of the machine whether a certificate has
expired.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from typing import Any

__all__ = ["connect", "encrypting", "silence"]

Factory = Callable[[], Any]
Open = Callable[[Factory], Awaitable[tuple[asyncio.Transport, Any]]]


def encrypting(
    loop: asyncio.AbstractEventLoop,
    factory: Factory,
    context: SSLContext | bool,
    ready: asyncio.Future[None] | None = None,
    **options: Any,
) -> Callable[[], SSLProtocol]:
    """Return a factory for protocols that encrypt what the protocols of another factory say.

    `ready` gets its result when the handshake is over.
    """

    def make() -> SSLProtocol:
        # True stands for the usual context, which asyncio makes if there is none.
        return SSLProtocol(loop, factory(), None if context is True else context, ready, **options)  # type: ignore[arg-type]

    return make


async def connect(
    loop: asyncio.AbstractEventLoop,
    open_plain: Open,
    factory: Factory,
    context: SSLContext | bool,
    **options: Any,
) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
    """Open a connection, encrypt it, and return the encrypted transport with its protocol."""
    ready = loop.create_future()
    _, layer = await open_plain(encrypting(loop, factory, context, ready, **options))
    transport, protocol = layer._app_transport, layer._app_protocol
    try:
        await ready
    except BaseException:
        transport.close()
        raise
    return transport, protocol


def silence(protocol: object) -> None:
    """Mark the encrypted transport of a dropped connection as closed, or it warns when it is collected."""
    if isinstance(protocol, SSLProtocol) and protocol._app_transport is not None:
        protocol._app_transport._closed = True
