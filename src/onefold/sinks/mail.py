"""Sends mail by SMTP: one-shot, because a repeat is a second mail.

The Message-ID is made from the key, so that people and servers can tell two copies of one mail. What the
server says before it took the text is certain; a connection that is lost after that leaves the mail in doubt.
One connection per mail, in a thread. Passwords are never quoted.
"""

from __future__ import annotations

import smtplib
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
from onefold.drive.threads import in_thread

STORED = 32 * 1024
"""The longest mail that is stored before it is sent, in bytes."""

PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


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
        if split.scheme not in PORTS or not split.hostname:
            raise Misconfigured("the mail server is no URL of one: write smtp://user@host, or smtps://…")
        self._scheme = split.scheme
        self._host = split.hostname
        self._port = PORTS[split.scheme] if port is None else port
        self._context = None if split.scheme == "smtp+plain" else ssl.create_default_context()
        self._user = unquote(split.username or "")
        self._password = password or unquote(split.password or "")
        if self._user and not self._password:
            raise Misconfigured(f"there is no password for {self._user} at {self._host}: give password=")
        try:
            self._sender = _address(sender)
        except Rejected as error:
            raise Misconfigured(f"sender= is no address: {error}") from error
        self._subject, self._text, self._html, self._to = subject, text, html, to
        self._timeout = seconds(timeout, "timeout")

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
            return await in_thread(self._deliver, message)
        except (Refused, InDoubt) as error:
            return error

    # ----- in a thread

    def _deliver(self, message: EmailMessage) -> dict[str, Any]:
        try:
            connection = self._connected()
        except smtplib.SMTPAuthenticationError as error:
            raise Refused(f"{self._host} does not let {self._user} in ({error.smtp_code})") from None
        except (OSError, smtplib.SMTPException) as error:
            raise Refused(f"the mail server {self._host} was not reached: {_said(error)}") from None
        try:
            self._offer(connection, message)
            return self._hand_over(connection, message)
        finally:
            connection.close()

    def _connected(self) -> smtplib.SMTP:
        context = self._context
        if self._scheme == "smtps":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, _own_name(), timeout=self._timeout, context=context
            )
        else:
            connection = smtplib.SMTP(self._host, self._port, _own_name(), timeout=self._timeout)
        try:
            if self._scheme == "smtp":
                connection.starttls(context=context)
            if self._user:
                connection.login(self._user, self._password)
            connection.ehlo_or_helo_if_needed()
        except BaseException:
            connection.close()
            raise
        return connection

    def _offer(self, connection: smtplib.SMTP, message: EmailMessage) -> None:
        """Say from whom and to whom, and ask to send the text: until then nothing can happen."""
        try:
            _check(connection.mail(self._sender.addr_spec), (250,))
            _check(connection.rcpt(_recipient(message)), (250, 251))
            _check(connection.docmd("DATA"), (354,))
        except (OSError, smtplib.SMTPException) as error:
            raise Refused(f"{self._host} was lost before the mail was sent: {_said(error)}") from None

    def _hand_over(self, connection: smtplib.SMTP, message: EmailMessage) -> dict[str, Any]:
        raw = message.as_bytes(policy=SMTP)
        stuffed = b"\r\n".join(b"." + line if line.startswith(b".") else line for line in raw.split(b"\r\n"))
        try:
            connection.send(stuffed.removesuffix(b"\r\n") + b"\r\n.\r\n")
            answer = connection.getreply()
        except (OSError, smtplib.SMTPException) as error:
            raise InDoubt(f"{self._host} was lost after the mail was sent: {_said(error)}") from None
        if not 200 <= answer[0] < 300:
            _judge_refusal(*answer)
        return {"id": str(message["Message-ID"]), "to": _recipient(message), "said": _words(answer[1])}


def _own_name() -> str:
    """Say how this machine greets; asking a name server for it, as the library does, can take seconds."""
    name = socket.gethostname()
    return name if "." in name else "[127.0.0.1]"


def composed(mail: dict[str, str], sender: Address, name: str) -> EmailMessage:
    """Make a mail of its parts; what would break out of a header is rejected."""
    to = _address(mail["to"])
    if any(char in mail["subject"] for char in "\r\n\0"):
        raise Rejected("the subject holds a line break: what comes from outside must not write headers")
    message = EmailMessage(policy=SMTP)
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
    except (ValueError, HeaderParseError, IndexError):
        raise Rejected(f"{text!r:.80} is no address of one person: write name@host") from None
    if not address.username or not address.domain:
        raise Rejected(f"{text!r:.80} is no address of one person: write name@host")
    return address


def _recipient(message: EmailMessage) -> str:
    [to] = message["To"].addresses
    return str(to.addr_spec)


def _check(answer: tuple[int, bytes], fine: tuple[int, ...]) -> None:
    """Judge a reply: 4 means try again, 5 means that trying again is useless."""
    code, said = answer
    if code in fine:
        return
    kind = Rejected if 500 <= code < 600 else Refused
    raise kind(f"the mail server says {code}: {_words(said)}")


def _judge_refusal(code: int, said: bytes) -> None:
    """Judge what a server says instead of taking a mail; what is no reply of SMTP says nothing."""
    if not 400 <= code < 600:
        raise InDoubt(f"the mail server answered the mail with {code}: {_words(said)}")
    _check((code, said), ())


def _said(error: Exception) -> str:
    code = getattr(error, "smtp_code", None)
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def _words(said: bytes) -> str:
    return "".join(char if char.isprintable() else " " for char in said.decode("utf-8", "replace"))[:200]
