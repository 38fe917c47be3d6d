"""A stage for messages: signals in a file, a mail server that counts, nodes that share a store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio

from onefold import Ledger
from onefold.apps.messages import Settings, pipelines
from onefold.apps.messages.pipeline import MailSettings
from onefold.worker import Worker
from onefold.worker.settings import Live
from onefold.worlds.smtp import SmtpWorld
from tests.fast.worker.stage import until


def signal(number: int) -> dict[str, Any]:
    return {"id": f"s{number}", "to": "ann@example.org", "subject": f"s{number}", "text": f"Signal {number}."}


def write(file: Path, numbers: Iterable[int]) -> None:
    """Add signals to a file, as whoever makes them would."""
    with file.open("a") as lines:
        lines.writelines(json.dumps(signal(number)) + "\n" for number in numbers)


def by_mail(world: SmtpWorld, file: Path, **more: Any) -> Settings:
    mail = MailSettings(server=world.url, sender="shop@example.org")
    told: dict[str, Any] = {"processor": "mailer", "signals": str(file), "follow": "20ms", "lease": "3s"}
    return Settings(mail=mail, **{**told, **more})


def node(settings: Settings, store: str) -> Worker:
    live = Live("messages.")
    return Worker([pipelines(settings, live)], store=store, grace=10, beside=[live.attend])


def run_until(nodes: Sequence[Worker], condition: Callable[[], bool]) -> list[int]:
    """Run nodes side by side until a condition holds, then stop them; return their exit codes."""
    codes: list[int] = []

    async def work(one: Worker) -> None:
        codes.append(await one.arun())

    async def all_of_them() -> None:
        async with anyio.create_task_group() as group:
            for one in nodes:
                group.start_soon(work, one)
            await until(condition)
            for one in nodes:
                one.stop()

    anyio.run(all_of_them)
    return codes


def delivered(world: SmtpWorld) -> Counter[str]:
    """Count the mails that arrived, by signal."""
    return Counter(line["subject"] for line in world.journal.of("mail"))


def dropped(world: SmtpWorld) -> Counter[str]:
    """Count the mails that the server read whole and dropped without an answer, by signal."""
    return Counter(line["subject"] for line in world.journal.of("dropped"))


def parked(store: str, processor: str = "mailer") -> dict[str, str | None]:
    """Say which signals wait for a decision, and why."""
    ledger = Ledger(store)
    try:
        found = list(ledger.entries("messages", "parked"))
    finally:
        ledger.close()
    return {key.label.removeprefix(f"{processor}/"): entry.why for key, entry in found}
