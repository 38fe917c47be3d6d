"""Messages in the demo: signals that come again and out of order, and a mail server that loses answers."""

from __future__ import annotations

import json
import smtplib
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from random import Random
from typing import Any

from onefold.worlds.demo.account import kept_in
from onefold.worlds.demo.naive import remember, remembered
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.smtp import SmtpWorld

SIGNALS = 80
AGAIN = 0.5
"""The share of signals that the outside sends a second time."""
NODES = 2
PROCESSING = 0.5
"""Seconds: "a little bit longer than the time needed to process a signal"."""

TRICKS: dict[Trick, float] = {"stall": 0.35, "error": 0.06, "cut-before": 0.03, "cut-after": 0.06}


class Messages:
    """Signals in a file that grows, two nodes with one processor, one mail server."""

    name = "messages"

    def start(self, folder: Path, seed: int) -> str:
        self.journal = Journal()
        self.mail = SmtpWorld(mischief=Mischief(seed, TRICKS, 0.6))
        self.mail.__enter__()
        self.file = folder / "signals.jsonl"
        self.file.touch()
        self._plan = _drawn(seed)
        self._shown = 0
        return (
            f'processor = "mailer"\nsignals = {json.dumps(str(self.file))}\nfollow = "200ms"\n'
            'lease = "5s"\nbackoff = ["200ms", "2s"]\nattempts = 50\n'
            f'mail = {{ server = "{self.mail.url}", sender = "shop@example.org" }}\n'
        )

    def setup(self) -> dict[str, Any]:
        return {}

    def happen(self, share: float) -> None:
        until = min(int(share * len(self._plan)) + 1, len(self._plan))
        with self.file.open("a") as lines:
            for name, is_new in self._plan[self._shown : until]:
                if is_new:
                    self.journal.note("signal", id=name)
                lines.write(json.dumps(_signal(name)) + "\n")
        self._shown = max(self._shown, until)

    def calm(self) -> None:
        self.mail.mischief.stop()

    def expected(self) -> Counter[str]:
        return Counter(line["id"] for line in self.journal.of("signal"))

    def happened(self) -> Counter[str]:
        return Counter(line["subject"] for line in self.mail.journal.of("mail"))

    def filtered(self) -> int:
        return 0

    def named(self, row: dict[str, Any]) -> str | None:
        name = kept_in(row).get("record", {}).get("id")
        return str(name) if name else None

    def naive(self) -> dict[str, Any]:
        host, _, port = self.mail.url.rpartition("/")[2].partition(":")
        return {"host": host, "port": int(port), "file": str(self.file)}

    def close(self) -> None:
        self.mail.__exit__(None, None, None)


def _drawn(seed: int) -> list[tuple[str, bool]]:
    """Draw in which order signals come; some come once more, later. True at the first time."""
    random = Random(seed)
    places = [(float(number), f"s{number}") for number in range(SIGNALS)]
    again = [(place + random.uniform(8, 30), name) for place, name in places if random.random() < AGAIN]
    seen: set[str] = set()
    plan = []
    for _, name in sorted(places + again):
        plan.append((name, name not in seen))
        seen.add(name)
    return plan


def _signal(name: str) -> dict[str, str]:
    return {"id": name, "to": "ann@example.org", "subject": name, "text": f"This is {name}."}


# ----- as seed 001 has it


def naive(facts: dict[str, Any], folder: Path) -> None:
    """Run nodes that share a table of signals; each reads all lines, and acknowledges what it was refused."""
    with _table(folder) as table:
        table.execute(
            "CREATE TABLE IF NOT EXISTS signals "
            "(id TEXT PRIMARY KEY, started REAL, completed REAL, expires REAL)"
        )
    nodes = [
        threading.Thread(target=_naive_node, args=(facts, folder, number), daemon=True)
        for number in range(NODES)
    ]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()


def _table(folder: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(folder / "signals.db", timeout=10, isolation_level=None))


def _naive_node(facts: dict[str, Any], folder: Path, number: int) -> None:
    place = f"place{number}.json"
    while True:
        lines = Path(facts["file"]).read_text().split("\n")[:-1]
        for at in range(remembered(folder, place, 0), len(lines)):
            signal = json.loads(lines[at])
            if _naive_is_allowed(folder, signal["id"]) and _naive_send(facts, signal):
                with _table(folder) as table:
                    table.execute(
                        "UPDATE signals SET completed = ? WHERE id = ?", (time.time(), signal["id"])
                    )
            remember(folder, place, at + 1)
        time.sleep(0.2)


def _naive_is_allowed(folder: Path, name: str) -> bool:
    """Upsert start and expiry, whoever asks, and decide by the record as it was before."""
    now = time.time()
    with _table(folder) as table:
        table.execute("BEGIN IMMEDIATE")
        old = table.execute("SELECT completed, expires FROM signals WHERE id = ?", (name,)).fetchone()
        table.execute(
            "INSERT INTO signals VALUES (?, ?, NULL, ?) "
            "ON CONFLICT (id) DO UPDATE SET started = excluded.started, expires = excluded.expires",
            (name, now, now + PROCESSING),
        )
        table.execute("COMMIT")
    return old is None or (old[0] is None and old[1] < now)


def _naive_send(facts: dict[str, Any], signal: dict[str, str]) -> bool:
    """Send a mail; whatever goes wrong, it has failed, and will expire."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@example.org", signal["to"], signal["subject"]
    mail.set_content(signal["text"])
    try:
        with smtplib.SMTP(facts["host"], facts["port"], "localhost", timeout=PROCESSING) as server:
            server.send_message(mail)
    except (OSError, smtplib.SMTPException):
        return False
    return True
