"""Mistakes in messages, and in the files, the mail and the web services that it uses. Histories find them.

This module must not import `onefold` at its top (see `proof.sim.bug.Swap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.sim.bug import Bug, Swap


def _bug(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    return Bug(name, sentence, (Swap(f"onefold.{module}", qualname, replacement),), "messages")


def _acted_upon_by_any(original: Any, self: Any, key: Any, entry: Any) -> Any:
    from onefold.worker.work import read

    return read(key, entry)


def _keyed_by_id(original: Any, settings: Any, live: Any) -> Any:
    from dataclasses import replace

    return replace(original(settings, live), key=lambda record: record.id)


async def _mailed_again(original: Any, self: Any, connection: Any, message: Any, raw: bytes) -> Any:
    from onefold.core.errors import Refused
    from onefold.sinks.mail import InDoubt

    try:
        return await original(self, connection, message, raw)
    except InDoubt as error:
        raise Refused(str(error)) from None


async def _posted_again(original: Any, self: Any, claim: Any, record: Any) -> Any:
    from onefold.core.errors import Refused
    from onefold.runtime.http import NoAnswer

    told = await original(self, claim, record)
    return Refused(str(told)) if isinstance(told, NoAnswer) else told


async def _posted_under_a_new_key(original: Any, self: Any, claim: Any, record: Any) -> Any:
    from types import SimpleNamespace

    from onefold.core.key import Key

    key = Key(claim.key.scope, claim.key.label, str(claim.attempt))
    return await original(self, SimpleNamespace(key=key, request=claim.request), record)


def _remembered_for_a_day(original: Any, settings: Any, effect: Any, timeout: Any) -> Any:
    from msgspec.structs import replace

    return original(replace(settings, window="24h"), effect, timeout)


def _only_the_present(original: Any, self: Any, written: Any, tape: Any, present: Any) -> Any:
    return type(original(self, written, tape, present))([present])


def _present_first(original: Any, self: Any, place: Any, present: Any) -> Any:
    return present if present.begins_with(place) else original(self, place, present)


def _never(original: Any, self: Any, tape: Any, before: Any) -> bool:
    return False


def _torn_or_not(original: Any, self: Any, chunk: bytes) -> Any:
    return [*original(self, chunk), *self.end()]


def _moved_when_read(original: Any, self: Any, places: Any, mark: Any = None) -> Any:
    from onefold.core.cursor import advance

    self.cursor = advance(self.cursor, [(at, "done") for at, _ in places], () if mark is None else (mark,))
    return original(self, places, mark)


BUGS: tuple[Bug, ...] = (
    _bug(
        # Histories of two processors found it: mails went out in the name of the other one.
        "messages-sent-by-another-processor",
        "A worker of one processor sends what waits for another processor, on its own way.",
        "worker.recovery",
        "Recovery._read",
        _acted_upon_by_any,
    ),
    _bug(
        "messages-processors-share-a-key",
        "The key of a signal does not name its processor: only one of them sends it.",
        "apps.messages.pipeline",
        "pipelines",
        _keyed_by_id,
    ),
    _bug(
        "messages-lost-answer-of-the-mail-server-retried",
        "A mail whose answer was lost is sent again.",
        "sinks.mail",
        "Mail._hand_over",
        _mailed_again,
    ),
    _bug(
        "messages-lost-answer-of-a-webhook-retried",
        "A signal whose answer was lost is posted again, though the service knows no keys.",
        "sinks.http",
        "Http._sent",
        _posted_again,
    ),
    _bug(
        "messages-webhook-key-of-an-attempt",
        "Every attempt has an idempotency key of its own.",
        "sinks.http",
        "Http._sent",
        _posted_under_a_new_key,
    ),
    _bug(
        "messages-window-of-a-webhook-forgotten",
        "The worker thinks that a service remembers keys for a day, whatever the settings say.",
        "apps.messages.pipeline",
        "_webhook",
        _remembered_for_a_day,
    ),
    _bug(
        "messages-torn-line-taken-for-a-whole-one",
        "The first half of a line is taken for a line, if the rest is not written yet.",
        "sources.lines",
        "Lines.take",
        _torn_or_not,
    ),
    Bug(
        # Once new lines of a truncated file were skipped without a word.
        "messages-truncation-unnoticed",
        "A file that was copied and truncated is read on at the same place.",
        (
            Swap("onefold.sources.rotation", "Tape._is_as_it_was", lambda original, self: True),
            Swap("onefold.sources.rotation", "Trail._turn_back", _never),
        ),
        "messages",
    ),
    _bug(
        # Histories with several rotations between two looks found it.
        "messages-copy-of-an-unread-file-passed-over",
        "Lines are lost that came into an empty file and were copied and truncated before the next look.",
        "sources.rotation",
        "Trail._turn_back",
        _never,
    ),
    _bug(
        # Histories of files that begin with the same line found it.
        "messages-present-file-taken-for-the-one-that-was-read",
        "The present file is taken for the one that was read, because it begins with the same lines.",
        "sources.rotation",
        "Trail._find",
        _present_first,
    ),
    _bug(
        # The check of cursors found it: lines named by their number would have been acted upon twice.
        "messages-packed-file-read-again",
        "A file that is packed while it is read is taken for a later one.",
        "sources.rotation",
        "Tape.is_packed_copy",
        lambda original, self, read: False,
    ),
    _bug(
        "messages-files-between-passed-over",
        "Of two rotations between two looks, the file in between is not read.",
        "sources.rotation",
        "Trail._later",
        _only_the_present,
    ),
    _bug(
        "messages-mark-taken-too-early",
        "A cursor that is held back in one file takes the mark of the next one.",
        "core.cursor",
        "_is_reached",
        lambda original, mark, at: True,
    ),
    _bug(
        "messages-cursor-moved-when-lines-were-read",
        "The cursor moves when lines were read, not when they are accounted for.",
        "worker.progress",
        "Track.enter",
        _moved_when_read,
    ),
    _bug(
        # Once it lost 200 of 500 records.
        "messages-cursor-past-the-page",
        "Lines that a page left open hold back only that page, not the ones behind it.",
        "worker.progress",
        "Track._fates",
        lambda original, self, ticket: list(original(self, ticket))[: len(ticket.places)],
    ),
)
