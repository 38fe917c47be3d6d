"""Sends mail by SMTP: one-shot, because a repeat is a second mail.

The Message-ID is made from the key, so that people and servers can tell two copies of one mail. What the
server says before it took the text is certain; a connection that is lost after that leaves the mail in doubt.
One connection per mail; the conversation itself is in `onefold.sinks.smtp`, and this module judges its
replies. Passwords are never quoted.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any
from urllib.parse import unquote, urlsplit

from onefold.core.entry import Effect
from onefold.core.errors import Misconfigured, Refused, Rejected
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.redaction import ESCAPED, check_login
from onefold.core.terms import Duration, seconds
from onefold.sinks.smtp import Broken, Connection, LoginRefused, Reply, Security, Server, connect

STORED = 32 * 1024
"""The longest mail that is stored before it is sent, in bytes."""

SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp": ("starttls", 587),
    "smtps": ("tls", 465),
    "smtp+plain": ("plain", 25),
}
"""What a URL says of encryption, and the port if it names none."""

ASCII = SMTP.clone(cte_type="7bit")
"""How a mail is written: other bytes than ASCII would need an extension that not every server has."""


class InDoubt(Exception):
    """The server had the whole mail, and did not say whether it takes it."""


class Mail:
    """Sends `text(record)` under `subject(record)` to the address that `to` gives, or that the record is for.

    `smtp://user@host` asks for STARTTLS and refuses a server without it; `smtps://` speaks TLS from the first
    byte; `smtp+plain://` is for a server on this machine.
    """

    effect: Effect = "one-shot"

    def __init__(
        self,
        url: str,
        *,
        sender: str,
        subject: Callable[[Record], str],
        text: Callable[[Record], str],
        html: Callable[[Record], str] | None = None,
        to: Callable[[Record], str] | None = None,
        password: str | None = None,
        timeout: Duration = "30s",
    ) -> None:
        check_login(url, "the URL of the mail server", several=True)  # a user is often an address of mail
        try:
            split = urlsplit(url)
            port = split.port
        except ValueError:
            # Not quoted: the part that cannot be read may be of a password.
            raise Misconfigured(f"the URL of the mail server cannot be read: {ESCAPED}") from None
        if split.scheme not in SCHEMES or not split.hostname:
            raise Misconfigured("the mail server is no URL of one: write smtp://user@host, or smtps://…")
        security, usual = SCHEMES[split.scheme]
        self._server = Server(
            split.hostname,
            usual if port is None else port,
            security,
            context=None if security == "plain" else ssl.create_default_context(),
            user=unquote(split.username or ""),
            password=password or unquote(split.password or ""),
            timeout=seconds(timeout, "timeout"),
        )
        _check_secrets(self._server)
        try:
            self._sender = _address(sender)
        except Rejected as error:
            raise Misconfigured(f"sender= is no address: {error}") from error
        self._subject, self._text, self._html, self._to = subject, text, html, to

    async def prepare(self, claim: Claim, record: Record) -> dict[str, str]:
        """Write the mail that every attempt sends."""
        mail = self._written(claim, record)
        composed(mail, self._sender, claim.key.id.hex())  # what cannot be a mail is refused before it begins
        # A long mail is written anew at every attempt: an entry has no room for it.
        return mail if sum(len(part.encode()) for part in mail.values()) <= STORED else {}

    def _written(self, claim: Claim, record: Record) -> dict[str, str]:
        to = claim.name or (self._to(record) if self._to else "")
        mail = {"to": str(to), "subject": self._subject(record), "text": self._text(record)}
        return {**mail, "html": self._html(record)} if self._html else mail

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._sent(claim, record) for claim, record in work]

    async def _sent(self, claim: Claim, record: Record) -> Any:
        try:
            mail = claim.request or self._written(claim, record)
            message = composed(mail, self._sender, claim.key.id.hex())
            return await self._deliver(message)
        except (Refused, InDoubt) as error:
            return error

    async def _deliver(self, message: EmailMessage) -> dict[str, Any]:
        raw = message.as_bytes(policy=ASCII)
        host = self._server.host
        try:
            connection = await connect(self._server, _own_name())
        except LoginRefused as error:
            raise Refused(f"{host} does not let {self._server.user} in ({error.code})") from None
        except Broken as error:
            raise Refused(f"the mail server {host} was not reached: {error}") from None
        try:
            await self._offer(connection, message)
            return await self._hand_over(connection, message, raw)
        finally:
            connection.close()

    async def _offer(self, connection: Connection, message: EmailMessage) -> None:
        """Say from whom and to whom, and ask to send the text: until then nothing can happen."""
        try:
            _check(await connection.command(f"MAIL FROM:<{self._sender.addr_spec}>"), (250,))
            _check(await connection.command(f"RCPT TO:<{_recipient(message)}>"), (250, 251))
            _check(await connection.command("DATA"), (354,))
            connection.check_silence()
        except Broken as error:
            raise Refused(f"{self._server.host} was lost before the mail was sent: {error}") from None

    async def _hand_over(self, connection: Connection, message: EmailMessage, raw: bytes) -> dict[str, Any]:
        try:
            reply = await connection.text(raw)
        except Broken as error:
            raise InDoubt(f"{self._server.host} was lost after the mail was sent: {error}") from None
        if not 200 <= reply.code < 300:
            _judge_refusal(reply)
        return {"id": str(message["Message-ID"]), "to": _recipient(message), "said": reply.said}


def _check_secrets(server: Server) -> None:
    if server.user and not server.password:
        raise Misconfigured(f"there is no password for {server.user} at {server.host}: give password=")
    if "\0" in server.user + server.password:
        raise Misconfigured(
            f"the user or the password for {server.host} holds a NUL: no mail server reads it"
        )


def _own_name() -> str:
    """Say how this machine greets; asking a name server for it, as the library does, can take seconds."""
    name = socket.gethostname()
    return name if re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", name) else "[127.0.0.1]"


def composed(mail: dict[str, str], sender: Address, name: str) -> EmailMessage:
    """Make a mail of its parts; what would break out of a header is rejected."""
    to = _address(mail["to"])
    if any(char in mail["subject"] for char in "\r\n\0"):
        raise Rejected("the subject holds a line break: what comes from outside must not write headers")
    message = EmailMessage(policy=ASCII)
    message["From"], message["To"], message["Subject"] = sender, to, mail["subject"]
    message["Message-ID"] = f"<{name}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail["text"])
    if "html" in mail:
        message.add_alternative(mail["html"], subtype="html")
    return message


def _address(text: str) -> Address:
    """Read one address; anything more than that in it is rejected."""
    if not text.isprintable() or not text.isascii() or "," in text:
        raise Rejected(f"{text!r:.80} is no address of one person: write name@host")
    try:
        address = Address(addr_spec=text)
    except (ValueError, HeaderParseError, IndexError, AttributeError, UnboundLocalError):
        # The last two: the library's own parser stumbles over `ann@[`.
        raise Rejected(f"{text!r:.80} is no address of one person: write name@host") from None
    if not address.username or not address.domain:
        raise Rejected(f"{text!r:.80} is no address of one person: write name@host")
    return address


def _recipient(message: EmailMessage) -> str:
    [to] = message["To"].addresses
    return str(to.addr_spec)


def _check(reply: Reply, fine: tuple[int, ...]) -> None:
    """Judge a reply: 4 means try again, 5 means that trying again is useless."""
    if reply.code in fine:
        return
    kind = Rejected if 500 <= reply.code < 600 else Refused
    raise kind(f"the mail server says {reply.code}: {reply.said}")


def _judge_refusal(reply: Reply) -> None:
    """Judge what a server says instead of taking a mail; what is no reply of SMTP says nothing."""
    if not 400 <= reply.code < 600:
        raise InDoubt(f"the mail server answered the mail with {reply.code}: {reply.said}")
    _check(reply, ())
