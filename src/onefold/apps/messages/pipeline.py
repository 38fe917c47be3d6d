"""The pipeline of messages: where signals come from, what names one, and how it is sent."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from onefold.core.errors import Misconfigured, Rejected
from onefold.core.ports import Sink, Source
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.sinks.command import Command
from onefold.sinks.function import Function
from onefold.sinks.http import Http
from onefold.sinks.mail import Mail
from onefold.sources.replay import Replay
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live


class MailSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send by SMTP; `{name}` in subject and text is the field of that name."""

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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.messages]` may say: where signals come from, and one way to send them."""

    processor: str
    """Who processes: nodes with one processor share the work, another processor does all of it again."""
    signals: str = "-"
    """A file of JSON lines, or - for standard input."""
    source: str = ""
    """Instead of it, a source of yours: module:source."""
    id: str = "id"
    """The field that names a signal."""
    mail: MailSettings | None = None
    webhook: WebhookSettings | None = None
    command: tuple[str, ...] = ()
    function: str = ""
    """module:function, called with the signal."""
    keep: str = "forever"
    lease: str = "60s"

    def __post_init__(self) -> None:
        if not self.processor:
            raise ValueError("processor is empty: name who processes these signals")
        ways = [name for name in ("mail", "webhook", "command", "function") if getattr(self, name)]
        if len(ways) != 1:
            told = " and ".join(ways) or "none"
            raise ValueError(
                f"one way to send is needed, and {told} is given: mail, webhook, command or function"
            )


def pipelines(settings: Settings, live: Live) -> Pipeline:
    """Say what is to be done."""
    return Pipeline(
        "messages",
        sources={"signals": _source(settings)},
        key=lambda record: (settings.processor, str(record.body[settings.id])),
        sink=_sink(settings),
        terms=Terms(lease=settings.lease, keep=settings.keep),
    )


def _source(settings: Settings) -> Source:
    if settings.source:
        source: Source = _named(settings.source, "source")
        return source
    return Replay(settings.signals, id=settings.id)


def _sink(settings: Settings) -> Sink:
    if settings.mail:
        return _mail(settings.mail)
    if settings.webhook:
        headers = {"Authorization": f"Bearer {settings.webhook.token}"} if settings.webhook.token else {}
        return Http(settings.webhook.url, window=settings.webhook.window, headers=headers)
    if settings.command:
        return Command(settings.command)
    function = _named(settings.function, "function")
    return Function(lambda record: function(record.body))


def _mail(settings: MailSettings) -> Mail:
    return Mail(
        settings.server,
        sender=settings.sender,
        subject=lambda record: filled(settings.subject, record),
        text=lambda record: filled(settings.text, record),
        to=lambda record: filled(settings.to, record),
        password=settings.password,
    )


def filled(template: str, record: Record) -> str:
    """Put the fields of a signal where a text names them; one that is missing is an error, not a blank."""
    fields = record.body if isinstance(record.body, dict) else {}
    try:
        return template.format_map({name: str(value) for name, value in fields.items()})
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise Rejected(f"the signal {record.id} has no {error} for {template!r:.60}") from None


def _named(name: str, what: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misconfigured(
            f'{what} is {name!r} and cannot be loaded ({error}): write "module:name" of something importable'
        ) from error
