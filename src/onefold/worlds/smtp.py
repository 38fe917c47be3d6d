"""A mail server: it takes mail, refuses some, and hangs up where a test tells it to.

Faults are written down beforehand, one by one, or drawn by mischief, one per mail. The journal has a line for
every mail that is delivered, and for every one that was read and dropped. It speaks as much SMTP as a client
needs, no TLS.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from contextlib import suppress
from email import message_from_bytes
from email.policy import default
from typing import Literal

from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import StreamStandIn

Stage = Literal["greeting", "mail", "rcpt", "data", "text"]
Fault = tuple[Stage, int | Literal["cut-before", "cut-after"]]
"""Where something goes wrong, and how: a reply by its code, or the line cut before or after it happened."""


DRAWN: dict[Trick | None, int | str] = {
    "error": 451,
    "busy": 451,
    "cut-before": "cut-before",
    "cut-after": "cut-after",
}
"""What mischief does once the text is there; a stall answers late."""


class SmtpWorld(StreamStandIn):
    """Delivers mail into its journal. Faults are used up one by one, each at its stage."""

    def __init__(self, journal: Journal | None = None, mischief: Mischief | None = None) -> None:
        super().__init__()
        self.journal = journal or Journal()
        self.mischief = mischief or Mischief()
        self.faults: deque[Fault] = deque()
        self.connections = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"smtp+plain://{self.address}"

    @property
    def delivered(self) -> Counter[str]:
        """What arrived, by Message-ID; more than 1 is a double."""
        return Counter(line["id"] for line in self.journal.of("mail"))

    def fault(self, stage: Stage) -> int | str | None:
        """Say what goes wrong at a stage, if anything."""
        with self._lock:
            if self.faults and self.faults[0][0] == stage:
                return self.faults.popleft()[1]
        return None

    def fate(self) -> tuple[int | str | None, bool]:
        """Say what goes wrong with a mail that was read whole, and whether its answer comes late."""
        fault = self.fault("text")
        trick = None if fault is not None else self.mischief.draw()
        return (DRAWN.get(trick) if fault is None else fault), trick == "stall"

    def deliver(self, sender: str, to: list[str], raw: bytes, kind: str = "mail") -> None:
        """Write a mail down, as delivered or as what else became of it."""
        message = message_from_bytes(raw, policy=default)
        facts = {"id": message["Message-ID"], "subject": message["Subject"], "headers": list(message.keys())}
        body = message.get_body(("plain",))
        text = body.get_content() if body else ""
        self.journal.note(kind, sender=sender, to=to, text=text, **facts)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(_Cut):
            await _Session(self, reader, writer).run()


class _Session:
    """One connection."""

    def __init__(self, world: SmtpWorld, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._world = world
        self._reader = reader
        self._writer = writer

    async def run(self) -> None:
        sender, to = "", list[str]()
        await self._say("greeting", "220 stand-in ready")
        while line := await self._reader.readline():
            verb, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
            match verb.upper():
                case "EHLO" | "HELO":
                    await self._line("250 stand-in")
                case "MAIL" if await self._say("mail", "250 ok"):
                    sender, to = _path(rest), []
                case "RCPT" if await self._say("rcpt", "250 ok"):
                    to.append(_path(rest))
                case "DATA" if await self._say("data", "354 go on"):
                    await self._take(sender, to)
                case "QUIT":
                    return await self._line("221 bye")
                case "MAIL" | "RCPT" | "DATA":
                    pass
                case _:
                    await self._line("502 what?")
        return None

    async def _say(self, stage: Stage, fine: str) -> bool:
        """Answer at a stage; True if nothing goes wrong there."""
        wrong = self._world.fault(stage)
        if isinstance(wrong, str):
            raise _Cut
        await self._line(fine if wrong is None else f"{wrong} no")
        return wrong is None

    async def _line(self, text: str) -> None:
        self._writer.write(text.encode() + b"\r\n")
        await self._writer.drain()

    async def _take(self, sender: str, to: list[str]) -> None:
        lines = []
        while (line := await self._reader.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        wrong, late = self._world.fate() if line else ("cut-before", False)
        if wrong is None or wrong == "cut-after":
            self._world.deliver(sender, to, b"".join(lines))
        elif line and wrong == "cut-before":
            self._world.deliver(sender, to, b"".join(lines), "dropped")
        if late:
            await asyncio.sleep(self._world.mischief.stall)
        if isinstance(wrong, str):
            raise _Cut
        await self._line("250 taken" if wrong is None else f"{wrong} no")


class _Cut(Exception):
    """Hang up without a word."""


def _path(rest: str) -> str:
    return rest[rest.find("<") + 1 : rest.find(">")]
