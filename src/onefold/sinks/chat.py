"""Sends messages through the Telegram Bot API: one-shot, because a repeat is a second message.

Nothing is sent twice by itself: an answer that is lost leaves the message in doubt. What the API says is
sorted by what is known, in `judged`. The bot's token stands in every address; no log and no error quotes one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from onefold.core.entry import Effect
from onefold.core.errors import Later, Misconfigured, Refused, Rejected
from onefold.core.ports import AsyncClock, Claim
from onefold.core.record import Record
from onefold.core.terms import Duration, seconds
from onefold.runtime import current, now
from onefold.runtime.http import Answer, Ask, NoAnswer, check_installed
from onefold.sinks.http import later
from onefold.sinks.markup import LIMIT, cut, escaped, split
from onefold.sinks.pace import Pace, Rates

log = logging.getLogger("onefold.sinks")

ANSWER = 64 * 1024

STORED = 32 * 1024
"""The longest text that is stored before it is sent, in bytes, over all parts."""

GONE = (
    "chat not found", "user is deactivated", "peer_id_invalid", "bot was kicked", "bot was blocked",
    "chat_write_forbidden", "not enough rights", "have no rights", "bot can't initiate", "chat_id is empty",
)  # fmt: skip
"""How the API says that a chat is not, or no longer, to be had."""


class ChatGone(Rejected):
    """The chat blocked the bot, or is not there: nobody receives anything in it."""

    def __init__(self, chat: str, said: str) -> None:
        super().__init__(chat, said)
        self.chat = chat
        self.said = said

    def __str__(self) -> str:
        return f"chat {self.chat} is not to be had: {self.said}; take it off the list, or ask its owner"


class BadMarkup(Rejected):
    """The API cannot read the tags of a text. Nothing is wrong with the chat."""


class Chat:
    """Sends `text(record)` to the chat that `to` gives, or to the name that the record is for.

    Texts are HTML as the API knows it: put everything that comes from outside through `escaped`. What is too
    long is cut, or split into several messages (`long="split"`). `gone(chat, reason)` is called for a chat
    that is not to be had, so that its owner can be taken off a list.
    """

    effect: Effect = "one-shot"

    def __init__(
        self,
        token: str,
        text: Callable[[Record], str],
        *,
        to: Callable[[Record], str | int] | None = None,
        long: Literal["cut", "split"] = "cut",
        preview: bool = True,
        gone: Callable[[str, str], object] | None = None,
        rates: Rates = Rates(),  # noqa: B008  (a tuple)
        timeout: Duration = "30s",
        url: str = "https://api.telegram.org",
        clock: AsyncClock | None = None,
    ) -> None:
        check_installed("a chat")
        if not token or not token.isprintable() or "/" in token:
            raise Misconfigured("the bot's token is empty or no token: give what BotFather gave you")
        if long not in ("cut", "split"):
            raise Misconfigured(f'long is {long!r}: write "cut" or "split"')
        self._address = f"{url.rstrip('/')}/bot{token}/sendMessage"
        self._text = text
        self._to = to
        self._long = long
        self._preview = preview
        self._gone = gone
        self._pace = Pace(rates, clock)
        self._turns: set[str] = set()
        self._timeout = seconds(timeout, "timeout")

    async def prepare(self, claim: Claim, record: Record) -> dict[str, Any]:
        """Write the message, and wait for its turn: what waits has not begun, and is in no doubt."""
        chat = str(claim.name or (self._to(record) if self._to else ""))
        if not chat:
            raise Rejected(f"{claim.key} is for no chat: give the pipeline each=, or the sink to=")
        text = self._text(record)
        texts = split(text) if self._long == "split" else [cut(text)]
        if not texts or not texts[0].strip():
            raise Rejected(f"the text for {claim.key} is empty: a message needs one")
        if sum(len(part.encode()) for part in texts) > STORED:
            raise Rejected(f"the text for {claim.key} has more than {STORED} bytes: send less")
        await self._pace.turn(chat)
        self._turns.add(claim.token)
        return {"chat": chat, "texts": texts}

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._sent(claim, record) for claim, record in work]

    async def _sent(self, claim: Claim, record: Record) -> Any:
        try:
            request = claim.request or await self.prepare(claim, record)
            if claim.token not in self._turns:  # prepared for an earlier attempt
                await self._pace.turn(request["chat"])
        except Refused as error:
            return error
        self._turns.discard(claim.token)
        chat, (first, *others) = request["chat"], request["texts"]
        told = await self._message(chat, first)
        if isinstance(told, Exception):
            return told
        sent = [told]
        for text in others:
            told = await self._next(chat, text)
            if isinstance(told, Exception):
                return _half(told, sent)
            sent.append(told)
        return {"chat": chat, "messages": sent}

    async def _next(self, chat: str, text: str) -> Any:
        """Send a further part of a message, however long its turn takes: the first has arrived."""
        while True:
            try:
                await self._pace.turn(chat)
                told = await self._message(chat, text)
            except Later as wait:
                told = wait
            if not isinstance(told, Later):
                return told
            await self._pace.wait(told.seconds)

    async def _message(self, chat: str, text: str) -> Any:
        fields = {"chat_id": chat, "text": text, "parse_mode": "HTML"}
        if not self._preview:
            fields["link_preview_options"] = json.dumps({"is_disabled": True})
        body = json.dumps(fields).encode()
        try:
            headers = {"Content-Type": "application/json"}
            ask = Ask("POST", self._address, headers, body, self._timeout, ANSWER)
            answer = await current().http(ask)
        except (Refused, NoAnswer) as error:
            return error
        told = judged(answer, chat, now())
        if isinstance(told, Later):
            await self._pace.hold(chat, told.seconds)
        if isinstance(told, ChatGone) and self._gone:
            try:
                self._gone(chat, told.said)
            except Exception:  # it is the caller's function; what became of the message is known all the same
                log.exception("gone= failed for a chat that is not to be had")
        return told


def judged(answer: Answer, chat: str, now: float) -> Any:
    """Say what the API's answer means: the message's number, or the exception that says what is known."""
    said = _said(answer.body)
    if answer.status == 200 and (said.get("ok") is True or answer.body.startswith(b'{"ok":true')):
        result = said.get("result")
        return result.get("message_id") if isinstance(result, dict) else None
    words = str(said.get("description") or "without a word")[:200]
    match said.get("error_code", answer.status):
        case 429:
            wait = _wait(said, answer, now)
            return Later(f"the chat service says: {words}", wait)
        case 401 | 404:
            return Refused(f"the chat service does not know this bot ({words}): check its token")
        case 403:
            return ChatGone(chat, words)
        case 400 if any(sign in words.lower() for sign in GONE):
            return ChatGone(chat, words)
        case 400 if "can't parse entities" in words.lower():
            return BadMarkup(f"{words}: put what comes from outside through escaped()")
        case int() as code if 400 <= code < 500:
            return Rejected(f"the chat service says {code}: {words}")
        case code:
            # It may have been sent: a gateway that gave up knows nothing of what stands behind it.
            return NoAnswer(f"the chat service says {code}: {words}")


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _wait(said: dict[str, Any], answer: Answer, now: float) -> float:
    """Read for how long the API sends us away; one that does not say so is left alone for a while."""
    parameters = said.get("parameters")
    told = parameters.get("retry_after") if isinstance(parameters, dict) else None
    wait = later(str(told) if told is not None else answer.headers.get("retry-after"), now)
    return wait if wait is not None else 5.0


def _half(error: Exception, sent: Sequence[Any]) -> Exception:
    """Say that a part of a split message arrived: then the whole can neither be repeated nor called done."""
    return NoAnswer(f"{len(sent)} parts arrived ({', '.join(map(str, sent))}), the next did not: {error}")


__all__ = ["LIMIT", "BadMarkup", "Chat", "ChatGone", "Rates", "escaped"]
