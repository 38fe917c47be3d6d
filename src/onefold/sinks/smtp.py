"""Speaks SMTP as a client, on asyncio streams: values in, replies out.

It opens a connection, encrypts it, logs in, and carries commands and one text. What a reply means for a mail
is decided by the caller; nothing here knows of claims, records or mails. It uses no thread and reads no clock
but the event loop's, so it also runs on a virtual loop. It never sends a password before a connection that is
to be encrypted is encrypted, and no error of it quotes one.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from socket import SOCK_STREAM
from typing import Literal, NamedTuple

import anyio

from onefold.core.terms import Seconds
from onefold.core.transport import distrust
from onefold.runtime import current

Security = Literal["tls", "starttls", "plain"]
"""TLS from the first byte, TLS after STARTTLS or no mail at all, or no TLS."""

LINE = 8192
"""The longest line of a reply, in bytes. The standard allows 512, but servers are known to write more."""

LINES = 100
"""The most lines of a reply; the longest of real servers have about 30."""

SAID = 200
"""How much of a reply's text is kept for people, in characters."""

_LINE = re.compile(rb"([0-9]{3})(?:([ -])(.*))?", re.DOTALL)
# Some old servers write AUTH=LOGIN instead of AUTH LOGIN.
_EXTENSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:[ =](.*))?", re.DOTALL)
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Broken(Exception):
    """The conversation cannot go on: no reply came, or one that cannot be read or worked with."""


class LoginRefused(Exception):
    """The server does not let the user in; `code` is its reply."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server answered the login with {code}")
        self.code = code


class Reply(NamedTuple):
    """What a server answered: the code, and the text of each line."""

    code: int
    lines: tuple[str, ...]

    @property
    def said(self) -> str:
        """The text for people: one line of printable characters, cut."""
        text = "\n".join(self.lines)
        return "".join(char if char.isprintable() else " " for char in text)[:SAID]


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, how it is spoken to, and how to log in there."""

    host: str
    port: int
    security: Security
    context: ssl.SSLContext | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: Seconds = 30.0
    """The longest wait for each step: one connection attempt, the TLS handshake, one sending, one line."""


async def connect(server: Server, own_name: str) -> Connection:
    """Open a connection that is ready for a mail: encrypted and logged in, as the server's values say."""
    connection = await _reached(server)
    try:
        if server.security == "tls":
            await connection.encrypt(server)
        reply = await connection.reply()
        if reply.code != 220:
            raise Broken(f"it greets with {reply.code}: {reply.said}")
        offers = await _introduced(connection, own_name)
        if server.security == "starttls":
            await _upgrade(connection, server, offers)
            # What a server offered before TLS may have been written by somebody else: ask again.
            offers = await _introduced(connection, own_name)
        if server.user:
            await _log_in(connection, server, offers)
    except BaseException:
        connection.close()
        raise
    return connection


class Connection:
    """A connection to a server: one command and its reply at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: Seconds = 30.0
    ) -> None:
        self._reader, self._writer = reader, writer
        self._unencrypted: asyncio.StreamWriter | None = None
        self._timeout = timeout
        self._received = bytearray()
        _send_fully(writer)

    async def command(self, line: str) -> Reply:
        """Send a command, and return the reply to it."""
        self.check_silence()
        if not (line.isascii() and line.isprintable()):
            raise Broken("a command holds a character that no command may hold")
        await self._send(line.encode("ascii") + b"\r\n")
        return await self.reply()

    async def text(self, raw: bytes) -> Reply:
        """Send a mail's text after DATA, with the line that ends it, and return the reply.

        From the first byte on, the text may arrive. So `check_silence` before that is left to the caller.
        """
        await self._send(stuffed(raw))
        return await self.reply()

    async def reply(self) -> Reply:
        """Read one reply."""
        code, lines = b"", list[str]()
        while len(lines) < LINES:
            found = _LINE.fullmatch(await self._line())
            if not found or (lines and found[1] != code):
                raise Broken("its reply cannot be read")
            code = found[1]
            lines.append((found[3] or b"").decode("utf-8", "replace").strip(" \t"))
            if found[2] != b"-":
                return Reply(int(code), tuple(lines))
        raise Broken(f"its reply has more than {LINES} lines")

    async def encrypt(self, server: Server) -> None:
        """Begin TLS; anything that was received before it is no part of what follows."""
        self.check_silence()
        assert server.context
        loop, plain = asyncio.get_running_loop(), self._writer
        # A new reader: bytes that came unencrypted may lie in the old one, where nobody can see them.
        # StreamWriter.start_tls would keep it, and they would be taken for replies of the encrypted server.
        reader = asyncio.StreamReader(LINE, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        with _step(self._timeout):
            transport = await loop.start_tls(
                plain.transport,
                protocol,
                server.context,
                server_hostname=server.host,
                ssl_handshake_timeout=2 * self._timeout,  # never the first: its default of 60 s might be
            )
        # asyncio also returns if the connection was closed in the middle of the handshake.
        if transport is None or transport.get_extra_info("ssl_object") is None:
            raise Broken("it closed the connection")
        protocol.connection_made(transport)
        # The old writer is kept: it would close the connection when it is collected.
        self._unencrypted = plain
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        _send_fully(self._writer)

    def check_silence(self) -> None:
        """Raise `Broken` if the server said more than it was asked: its next reply may belong to anything."""
        if self._received:
            raise Broken("it answered before it was asked")
        if self._writer.transport.is_closing():
            raise Broken("it closed the connection")

    def close(self) -> None:
        """Close the connection immediately, without a word; what was not sent is dropped."""
        for writer in (self._writer, self._unencrypted):
            if writer:
                writer.transport.abort()

    async def _send(self, data: bytes) -> None:
        with _step(self._timeout):
            self._writer.write(data)
            await self._writer.drain()

    async def _line(self) -> bytes:
        with _step(self._timeout):
            while (end := self._received.find(b"\n")) < 0 and len(self._received) <= LINE:
                piece = await self._reader.read(LINE)
                if not piece:
                    raise Broken("it closed the connection")
                self._received += piece
        if not 0 <= end <= LINE:
            raise Broken(f"it sent a line of more than {LINE} bytes")
        line = bytes(self._received[:end]).removesuffix(b"\r")
        del self._received[: end + 1]
        return line


def stuffed(raw: bytes) -> bytes:
    """Return a text as it is sent: lines end with CRLF, no line of it ends the text, and the end is marked.

    A CR or LF alone is made a line end, too: some servers take it for one, and would read commands in a text.
    """
    lines = _LINE_END.sub(b"\r\n", raw).removesuffix(b"\r\n").split(b"\r\n")
    return b"\r\n".join(b"." + line if line.startswith(b".") else line for line in lines) + b"\r\n.\r\n"


# ----- opening


async def _reached(server: Server) -> Connection:
    """Connect to the first address of a host that answers; each has the whole timeout."""
    trouble = Broken("its name has no address")
    for address in await _addresses(server):
        try:
            with _step(server.timeout):
                reader, writer = await current().stream(address, server.port, LINE)
            return Connection(reader, writer, server.timeout)
        except Broken as error:
            trouble = error
    raise trouble


async def _addresses(server: Server) -> list[str]:
    try:
        return [str(ip_address(server.host))]  # asking for the name of a number would only cost a thread
    except ValueError:
        pass
    with _step(server.timeout):
        found = await asyncio.get_running_loop().getaddrinfo(server.host, server.port, type=SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def _introduced(connection: Connection, own_name: str) -> Mapping[str, str]:
    """Say who we are, and return what the server offers: names of extensions, and what follows each."""
    reply = await connection.command(f"EHLO {own_name}")
    if reply.code == 250:
        return _offers(reply)
    if not 200 <= reply.code < 300:
        reply = await connection.command(f"HELO {own_name}")
    if not 200 <= reply.code < 300:
        raise Broken(f"it answers HELO with {reply.code}: {reply.said}")
    return {}


def _offers(reply: Reply) -> dict[str, str]:
    offers: dict[str, str] = {}
    for line in reply.lines[1:]:
        if found := _EXTENSION.fullmatch(line):
            name = found[1].upper()
            offers[name] = f"{offers.get(name, '')} {(found[2] or '').upper()}"
    return offers


async def _upgrade(connection: Connection, server: Server, offers: Mapping[str, str]) -> None:
    if "STARTTLS" not in offers:
        raise Broken("it does not offer STARTTLS")
    reply = await connection.command("STARTTLS")
    if reply.code != 220:
        raise Broken(f"it answers STARTTLS with {reply.code}: {reply.said}")
    await connection.encrypt(server)


# ----- logging in


async def _log_in(connection: Connection, server: Server, offers: Mapping[str, str]) -> None:
    """Log in by what the server offers, the strongest first.

    Some servers offer what they cannot do, for instance CRAM-MD5 where they keep no passwords in clear. So a
    way that is refused is followed by the next.
    """
    offered = offers.get("AUTH", "").split()
    ways = [way for name, way in _WAYS.items() if name in offered]
    if not ways:
        raise Broken("it offers no login that is known here")
    # A password from the environment may be bytes that are no UTF-8: then these bytes are sent.
    user, password = (text.encode("utf-8", "surrogateescape") for text in (server.user, server.password))
    for way in ways:
        reply = await way(connection, user, password)
        if reply.code in (235, 503):  # 503: it lets us in without
            return
        if reply.code == 334:
            raise Broken("its login does not end")
    raise LoginRefused(reply.code)


async def _log_in_by_cram_md5(connection: Connection, user: bytes, password: bytes) -> Reply:
    reply = await connection.command("AUTH CRAM-MD5")
    if reply.code != 334:
        return reply
    try:
        digest = hmac.new(password, b64decode(reply.lines[0], validate=True), "md5").hexdigest()
    except ValueError:  # not base64; or this machine has no MD5, as some rules of security demand
        return await connection.command("*")
    return await connection.command(_coded(user + b" " + digest.encode()))


async def _log_in_by_plain(connection: Connection, user: bytes, password: bytes) -> Reply:
    secret = _coded(b"\0" + user + b"\0" + password)
    reply = await connection.command(f"AUTH PLAIN {secret}")
    # Some servers do not read what stands behind the name, and ask for it.
    return await connection.command(secret) if reply.code == 334 else reply


async def _log_in_by_login(connection: Connection, user: bytes, password: bytes) -> Reply:
    reply = await connection.command("AUTH LOGIN")
    for secret in (user, password):
        if reply.code == 334:
            reply = await connection.command(_coded(secret))
    return reply


_WAYS = {"CRAM-MD5": _log_in_by_cram_md5, "PLAIN": _log_in_by_plain, "LOGIN": _log_in_by_login}
"""How to log in, the strongest first: the first does not show the password to the server."""


def _coded(secret: bytes) -> str:
    return b64encode(secret).decode("ascii")


# ----- steps


@contextmanager
def _step(timeout: Seconds) -> Iterator[None]:
    """Bound what is awaited inside by the clock of the loop, and tell its errors without their texts."""
    try:
        with anyio.fail_after(timeout):
            yield
    except (OSError, ValueError) as error:  # a host name that cannot be one is a ValueError
        wrong = distrust(str(error), "set SSL_CERT_FILE to a file with its authority")
        raise Broken(f"it {wrong}" if wrong else type(error).__name__) from None


def _send_fully(writer: asyncio.StreamWriter) -> None:
    """Let `drain` wait until all is sent. 1 and not 0: with 0, TLS of asyncio pauses when nothing waits."""
    writer.transport.set_write_buffer_limits(1, 0)
