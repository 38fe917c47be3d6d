"""The pipeline of messages: where signals come from, what names one, and how it is sent."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Literal

import msgspec

from onefold.core.errors import Misconfigured, Rejected
from onefold.core.key import Key
from onefold.core.ports import Sink, Source
from onefold.core.record import Record
from onefold.core.rows import pick
from onefold.core.terms import Seconds, Terms, seconds
from onefold.drive.functions import kind
from onefold.sinks.command import Command
from onefold.sinks.function import Function
from onefold.sinks.http import Http
from onefold.sinks.mail import Mail
from onefold.sources.replay import Replay
from onefold.worker.file import File, located
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live


class MailSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send by SMTP; `{name}` in to, subject and text is the field of that name, `{a.b}` one inside of it."""

    server: str
    sender: str
    to: str = "{to}"
    subject: str = "{subject}"
    text: str = "{text}"
    password: Secret | None = None


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send by HTTP, under an idempotency key that the far side remembers for `window`."""

    url: str
    window: str = "24h"
    token: Secret | None = None


_FIELD = re.compile(r"\{([\w.]+)\}")

Repeats = Literal["one-shot", "keyed", "idempotent"]

WAYS = ("mail", "webhook", "command", "function")

SLACK: Seconds = 30.0
"""How much longer than its way to send an effect is waited for: the way itself knows best how it ended."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.messages]` may say: where signals come from, and one way to send them."""

    processor: str
    """Who processes: nodes with one processor share the work, another processor does all of it again."""
    signals: File = File("-")
    """A file of JSON lines, or - for standard input."""
    follow: str = ""
    """How often a file is looked at for new lines; empty to end where it ends."""
    id: str = "id"
    """The field of a line that names a signal."""
    source: str = ""
    """Instead of lines, a source of yours: module:source. It names its records itself."""
    mail: MailSettings | None = None
    webhook: WebhookSettings | None = None
    command: tuple[File, ...] = ()
    """A program and its arguments; it gets the signal as JSON on its standard input.

    A program with a / in its name is looked for beside onefold.toml.
    """
    function: str = ""
    """module:function, called with the signal."""
    effect: Repeats | None = None
    """What a repeat would do, where you know better than that twice is wrong."""
    timeout: str = "60s"
    """How long one sending may take."""
    keep: str = "forever"
    lease: str = "60s"

    def __post_init__(self) -> None:
        if not self.processor:
            raise ValueError("processor is empty, name who processes these signals")
        ways = [name for name in WAYS if getattr(self, name)]
        if len(ways) != 1:
            told = " and ".join(ways) or "none"
            raise ValueError(
                f"one way to send is needed, and {told} is given. Choose mail, webhook, command or function"
            )
        if self.mail and self.effect not in (None, "one-shot"):
            raise ValueError(f"effect is {self.effect}, but a mail that is sent again is a second mail")
        if self.follow and self.signals == "-":
            raise ValueError("follow needs signals to be a file, standard input ends when it ends")


def pipelines(settings: Settings, live: Live) -> Pipeline:
    """Say what is to be done."""
    return Pipeline(
        "messages",
        sources={_place(settings): _source(settings)},
        key=lambda record: (settings.processor, record.id),
        sink=_sink(settings),
        terms=Terms(lease=settings.lease, keep=settings.keep),
        timeout=seconds(settings.timeout, "timeout") + SLACK,
        # Processors share a ledger and send in different ways: none may send what waits for another one.
        owns=lambda key, record: key == Key("messages", settings.processor, record.id),
    )


def _place(settings: Settings) -> str:
    """Name the source by who reads what: another processor, or another file, begins at its own beginning."""
    where = "standard input" if settings.signals == "-" else settings.signals
    return f"{settings.processor} from {settings.source or where}"


def _source(settings: Settings) -> Source:
    if settings.source:
        source: Source = _named(settings.source, "source")
        if not hasattr(source, "read"):
            raise Misconfigured(f"source is {settings.source!r}, which is no source: it has no read()")
        return source
    signals = "-" if settings.signals == "-" else located(settings.signals)
    return Replay(signals, id=settings.id, follow=settings.follow or None)


def _sink(settings: Settings) -> Sink:
    effect = settings.effect or "one-shot"
    if settings.mail:
        return _mail(settings.mail, settings.timeout)
    if settings.webhook:
        return _webhook(settings.webhook, settings.effect or "keyed", settings.timeout)
    if settings.command:
        program, *arguments = settings.command
        # A name without a slash is looked for in $PATH.
        found = str(located(program)) if "/" in program else program
        return Command([found, *arguments], effect=effect, timeout=settings.timeout)
    function = _named(settings.function, "function")
    if not callable(function):
        raise Misconfigured(f"function is {settings.function!r}, which cannot be called")
    if kind(function) in ("generator", "async generator"):
        raise Misconfigured(f"function is {settings.function!r}, a generator: write a function that returns")
    return Function(lambda record: function(record.body), effect=effect)


def _webhook(settings: WebhookSettings, effect: Repeats, timeout: str) -> Http:
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    window = settings.window if effect == "keyed" else None
    return Http(settings.url, window=window, effect=effect, headers=headers, timeout=timeout)


def _mail(settings: MailSettings, timeout: str) -> Mail:
    return Mail(
        settings.server,
        sender=settings.sender,
        subject=lambda record: filled(settings.subject, record),
        text=lambda record: filled(settings.text, record),
        to=lambda record: filled(settings.to, record),
        password=settings.password,
        timeout=timeout,
    )


def filled(template: str, record: Record) -> str:
    """Put the fields of a signal where a text names them; one that is missing is an error, not a blank."""

    def told(field: re.Match[str]) -> str:
        value = pick(record.body, field[1])
        if value is None:
            raise Rejected(f"the signal {record.id} has no {field[1]} for {template!r:.60}")
        return str(value)

    return _FIELD.sub(told, template)


def _named(name: str, what: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misconfigured(
            f'{what} is {name!r} and cannot be loaded ({error}): write "module:name" of something importable'
        ) from error
