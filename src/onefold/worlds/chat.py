"""A chat service like Telegram's: it takes messages, refuses some, and knows what arrived.

The journal has a line for every message that a reader would see. Answers are spoilt by the site's mischief.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping
from html.parser import HTMLParser

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site

TOKEN = "123456:stand-in-for-a-bot-token"
LONGEST = 4096
TAGS = {"b", "strong", "i", "em", "u", "s", "del", "a", "code", "pre", "blockquote", "tg-spoiler", "span"}


class ChatWorld(Site):
    """Takes `sendMessage`. Blocked chats answer 403, chats that nobody knows 400, bad tags another 400."""

    def __init__(self, mischief: Mischief | None = None, journal: Journal | None = None) -> None:
        super().__init__({("POST", f"/bot{TOKEN}/sendMessage"): self._send}, mischief)
        self.journal = journal or Journal()
        self.blocked: set[str] = set()
        self.unknown: set[str] = set()
        self.floods: Counter[str] = Counter()
        """How often a chat is still answered with 429."""
        self.retry_after: float = 1
        self._lock = threading.Lock()
        self._number = 0

    @property
    def arrived(self) -> Counter[tuple[str, str]]:
        """What readers see, by chat and text; more than 1 is a double."""
        return Counter((line["chat"], line["text"]) for line in self.journal.of("message"))

    def _send(self, request: Request) -> Response:
        said = request.json()
        chat, text = str(said.get("chat_id", "")), str(said.get("text", ""))
        with self._lock:
            refusal = self._refusal(chat, text)
            if refusal:
                return refusal
            self._number += 1
            self.journal.note("message", chat=chat, text=text, number=self._number)
            return Response({"ok": True, "result": {"message_id": self._number, "chat": {"id": chat}}})

    def _refusal(self, chat: str, text: str) -> Response | None:
        if self.floods[chat] > 0:
            self.floods[chat] -= 1
            more = {"parameters": {"retry_after": self.retry_after}}
            return _no(429, f"Too Many Requests: retry after {self.retry_after}", more)
        if chat in self.blocked:
            return _no(403, "Forbidden: bot was blocked by the user")
        if chat in self.unknown:
            return _no(400, "Bad Request: chat not found")
        wrong = _wrong_markup(text)
        if wrong:
            return _no(400, f"Bad Request: can't parse entities: {wrong}")
        if not 0 < len(_Reader.visible(text).encode("utf-16-le")) // 2 <= LONGEST:
            return _no(400, "Bad Request: message is too long" if text else "Bad Request: message is empty")
        return None


def _no(code: int, description: str, more: Mapping[str, object] | None = None) -> Response:
    return Response({"ok": False, "error_code": code, "description": description, **(more or {})}, code)


class _Reader(HTMLParser):
    """Reads a message as the service does: it wants every tag known, and closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong = ""
        self.text = ""

    @classmethod
    def read(cls, text: str) -> _Reader:
        reader = cls()
        reader.feed(text)
        reader.close()
        return reader

    @classmethod
    def visible(cls, text: str) -> str:
        return cls.read(text).text

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag not in TAGS:
            self.wrong = f'unsupported start tag "{tag}"'

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong = f'unexpected end tag "{tag}"'

    def handle_data(self, data: str) -> None:
        self.text += data


def _wrong_markup(text: str) -> str:
    reader = _Reader.read(text)
    if re.search(r"<(?![a-zA-Z/])", text):
        return "unescaped <"
    return reader.wrong or (f'can\'t find end tag of "{reader.open[-1]}"' if reader.open else "")
