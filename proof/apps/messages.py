"""Messages in the simulation: a file of signals that grows, tears and rotates, and ways to send that fail.

Signals come again and out of order. Workers of one processor share them; in some histories there are workers
of a second processor, which sends all of them again, on another way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

from onefold.core.entry import Entry
from onefold.core.key import Key
from onefold.core.wire import quoted
from onefold.worker.progress import cursor_key
from onefold.worker.work import is_kept
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief, Trick
from onefold.worlds.serving import StandIn
from onefold.worlds.site import Request, Response, Site
from onefold.worlds.smtp import Fault, SmtpWorld
from proof.apps.part import Act, Look, Part, Setting
from proof.apps.scribe import Rotation, Scribe

Way = Literal["mail", "keyed", "one-shot"]

MAIL_TRICKS: tuple[Trick, ...] = ("stall", "error", "cut-before", "cut-after")
HOOK_TRICKS: tuple[Trick, ...] = ("stall", "error", "busy", "cut-before", "cut-after", "half")
FAULTS: tuple[Fault, ...] = (
    ("greeting", "cut-before"),
    ("greeting", 421),
    ("mail", 451),
    ("rcpt", 450),
    ("rcpt", 550),
    ("data", "cut-before"),
    ("text", 554),
    ("text", "cut-before"),
    ("text", "cut-after"),
)
GARBAGE = (b"", b"{", b"[1]", b'{"no": "id"}', b'{"id": true}', b"\xff\xfe")

FILE = "signals.jsonl"
PROCESSORS = ("mailer", "hooks")

HOLDS = 0.7
"""Seconds for which a writer may hold on to a file that was renamed: less than the source waits for it."""


class Hook(Site):
    """Acts upon signals that are posted; if it knows keys, it ignores a repeat for as long as it says."""

    def __init__(self, clock: Callable[[], float], window: float | None, mischief: Mischief) -> None:
        self.journal = Journal()
        self._clock = clock
        self._window = window
        self._known: dict[str, float] = {}
        super().__init__({("POST", f"/{name}"): self._take for name in PROCESSORS}, mischief)

    def _take(self, request: Request) -> Response:
        signal, key = request.json(), request.headers["Idempotency-Key"]
        if "to" not in signal:
            return Response({"error": "to whom?"}, 422)
        now = self._clock()
        if self._window is not None and now - self._known.setdefault(key, now) > self._window:
            self._known[key] = now
        elif self._window is not None and self._known[key] < now:
            return Response({"known": True})
        self.journal.note("signal", processor=request.path[1:], id=signal["id"])
        return Response({"known": False})


class Messages(Part):
    """One or two processors, one file of signals, and a mail server or a web service for each."""

    name = "messages"

    def __init__(self, random: Random, clock: Callable[[], float], folder: Path) -> None:
        super().__init__(random, clock, folder)
        self.kinds = random.choice((1, 1, 2))
        self.scribe = Scribe(folder / FILE, clock)
        self.ways: list[Way] = [
            random.choice(("mail", "mail", "keyed", "one-shot")) for _ in range(self.kinds)
        ]
        self.window = random.choice((86_400, 40, 15))
        self.mail = SmtpWorld(mischief=_drawn(random, MAIL_TRICKS, 0.3))
        self.hooks = [
            Hook(clock, self.window if way == "keyed" else None, _drawn(random, HOOK_TRICKS, 0.3))
            for way in self.ways
        ]
        self.follow = random.choice((1, 3, 8))
        self.timeout = random.choice((5, 15))
        self.rotation: Rotation | None = random.choice((None, "numbered", "dated", "copied", "copied"))
        self.alike = random.choice((0, 0, 1, 3))
        """With how many of the same lines files begin, as when a writer says at its start that it starts."""
        self.bad: set[str] = set()
        """Signals that cannot be sent."""
        self._set_apart: set[str] = set()
        self._placed: set[str] = set()
        """The processors whose cursor knows its file; before, a file that is rotated is not looked for."""
        if random.random() < 0.8:
            self.scribe.create()

    @property
    def processors(self) -> Sequence[str]:
        return PROCESSORS[: self.kinds]

    def services(self) -> Sequence[StandIn]:
        return self.mail, *self.hooks

    def section(self) -> Mapping[str, Any]:
        return self.section_of(0)

    def section_of(self, kind: int) -> Mapping[str, Any]:
        processor, way = self.processors[kind], self.ways[kind]
        common = {
            "processor": processor,
            "signals": FILE,
            "follow": f"{self.follow}s",
            "timeout": f"{self.timeout}s",
            "lease": "20s",
            "backoff": ["5s", "20s"],
            "attempts": 60,
        }
        if way == "mail":
            return {**common, "mail": {"server": self.mail.url, "sender": f"{processor}@example.org"}}
        hook = {"url": f"{self.hooks[kind].url}/{processor}", "window": f"{self.window}s"}
        return {**common, "webhook": hook, "effect": way}

    # ----- what happens

    def plan(self) -> Sequence[tuple[float, Act | Setting]]:
        plan = [*self._writings(), *self._rotations()]
        for _ in range(self.random.choice((0, 0, 2))):
            fault = self.random.choice(FAULTS)
            plan.append((self.random.uniform(0, self.span * 0.7), partial(self.mail.faults.append, fault)))
        return plan

    def _writings(self) -> Iterator[tuple[float, Act]]:
        names = [f"s{number}" for number in range(self.random.randint(4, 12))]
        self.bad = {name for name in names if self.random.random() < 0.05}
        wanted = [(self.random.uniform(0, self.span * 0.8), name) for name in names]
        wanted += [
            (min(at + self.random.uniform(0, 30), self.span * 0.85), name)
            for at, name in wanted
            if self.random.random() < 0.5
        ]
        last = 0.0
        for at, name in sorted(wanted):
            # Some come together: they are on one page.
            last = last if self.random.random() < 0.4 else at
            yield last, partial(self._write, name, self.random.random(), self.random.random())
            yield at + self.random.uniform(0.1, 6), self._mend

    def _write(self, name: str, chance: float, share: float) -> None:
        signal = self._signal(name)
        if chance < 0.1:
            self.scribe.garbage(self.random.choice(GARBAGE))
        if chance < 0.3:
            self.scribe.tear(signal, share, is_given_up=chance < 0.16)
        else:
            self.scribe.write(signal)

    def _mend(self) -> None:
        self.scribe.mend()

    def _signal(self, name: str) -> dict[str, str]:
        # The same signal is not always the same text.
        text = self.random.choice(("This is it.", "This is it.", "Das wär's."))
        to = {} if name in self.bad else {"to": "ann@example.org"}
        return {"id": name, **to, "subject": name, "text": text}

    def _rotations(self) -> Iterator[tuple[float, Act]]:
        if self.rotation is None:
            return
        at = self.random.uniform(5, 30)
        while at < self.span * 0.9:
            yield at, partial(self._rotate, self.rotation, self.random.random() < 0.7)
            yield at + HOLDS, self._mend
            if self.random.random() < 0.3:
                yield at + 2.5, self.scribe.pack
            # Sometimes there are several between two looks.
            at += self.random.choice((self.random.uniform(1.5, 5), self.random.uniform(5, 30)))

    def _rotate(self, kind: Rotation, create: bool) -> None:
        if len(self._placed) < self.kinds or not self.scribe.rotate(kind, create):
            return
        self.scribe.repeat(self.alike)

    def calm(self) -> None:
        self.mail.mischief.stop()
        self.mail.faults.clear()
        for hook in self.hooks:
            hook.mischief.stop()
        self.scribe.mend()
        self.scribe.create()

    # ----- the truth

    def expected(self) -> Counter[str]:
        written = {line["id"] for line in self.scribe.journal.of("signal")} - self.bad
        return Counter(f"{processor}/{name}" for processor in self.processors for name in written)

    def happened(self) -> Counter[str]:
        found = Counter(
            f"{line['sender'].partition('@')[0]}/{line['subject']}" for line in self.mail.journal.of("mail")
        )
        for hook in self.hooks:
            found.update(f"{line['processor']}/{line['id']}" for line in hook.journal.of("signal"))
        return found

    def named(self, key: Key, entry: Entry) -> str | None:
        record = json.loads(entry.body or "{}").get("record") or {}
        return f"{record['source'].partition(' from ')[0]}/{record['id']}" if record.get("source") else None

    def is_final(self, key: Key, entry: Entry) -> bool:
        """Say whether it is a line that is no signal, or a signal that cannot be sent."""
        if entry.state != "parked" or entry.why != "failed":
            return False
        record = json.loads(entry.body or "{}")["record"]
        if key.scope == f"{self.name}.broken":
            return record["body"] in self._broken_lines()
        return record["id"] in self.bad

    def moved(self, key: Key, entry: Entry, look: Look) -> Iterator[str]:
        """Hold a cursor against the lines: whatever stands before it is done, parked or kept."""
        if key.scope == f"{self.name}.broken":
            self._set_apart.add(json.loads(entry.body or "{}")["record"]["body"])
        if key.scope == "onefold.gaps":
            yield f"a gap is written down, and every file is there: {entry.body}"
        for processor in self.processors:
            if key != cursor_key(self.name, f"{processor} from {FILE}"):
                continue
            stands = json.loads(entry.body or "{}")
            if stands.get("mark"):
                self._placed.add(processor)
            yield from self._passed_over(processor, stands.get("at") or 0, look)

    def _passed_over(self, processor: str, at: int, look: Look) -> Iterator[str]:
        names = [_id(raw) for file in self.scribe.lines for raw in file]
        # A signal that comes once more further on is read there, whatever became of its first line.
        again = set(names[max(at - 1, 0) :])
        before = [
            (number, name) for number, name in enumerate(names[: max(at - 1, 0)], 1) if name is not None
        ]
        keys = [Key(self.name, processor, name) for _, name in before]
        for (number, name), seen in zip(before, look(keys), strict=True):
            if name not in again and not _is_accounted(seen.entry):
                yield f"the cursor of {processor} stands at {at}, and {name} of line {number} is open"

    def wrong(self) -> Iterator[str]:
        """Every line that is no signal was shown to people."""
        for raw in sorted(self._broken_lines() - self._set_apart):
            yield f"a line that is no signal was not set apart: {raw}"

    def _broken_lines(self) -> set[str]:
        lines = {raw for file in self.scribe.lines for raw in file if raw.strip() and _id(raw) is None}
        return {quoted(raw.decode("utf-8", "replace")) for raw in lines}


def _id(raw: bytes) -> str | None:
    """Read which signal a line is; None if it is none."""
    try:
        name = json.loads(raw)["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None


def _is_accounted(entry: Entry | None) -> bool:
    return entry is not None and (entry.state in ("done", "parked") or is_kept(entry))


def _drawn(random: Random, tricks: Sequence[Trick], most: float) -> Mischief:
    """Draw how a service misbehaves in one history: some of its tricks, each at a rate of its own."""
    chosen = random.sample(tricks, random.randint(0, len(tricks)))
    share = most / max(len(chosen), 1)
    rates = {trick: random.uniform(0.2, 1.0) * share * 2 for trick in chosen}
    return Mischief(random.randrange(2**32), rates, random.choice((0.5, 3.0, 12.0)))
