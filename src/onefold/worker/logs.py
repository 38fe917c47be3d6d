"""Logs of a worker: lines of text for people or of JSON for programs, on stderr, without secrets.

The library itself only logs; where it goes is decided here, and only for `onefold run`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from onefold.worker.secret import masked

Form = Literal["text", "json"]

EXTRA = ("pipeline", "source", "key", "alarm", "url")


class Text(logging.Formatter):
    """One line for people: when, how grave, what."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = f"{at:%Y-%m-%d %H:%M:%SZ}  {record.levelname.lower():<7}  {_shown(record.getMessage())}"
        return masked("\n".join([line, *_traceback(self, record)]))


class Json(logging.Formatter):
    """One line for programs."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        line |= {name: getattr(record, name) for name in EXTRA if hasattr(record, name)}
        if trace := _traceback(self, record):
            line["traceback"] = masked("\n".join(trace))
        return json.dumps(line)


def _shown(text: str) -> str:
    """Keep what the outside said on one line, where it cannot move a cursor or fake another line."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    return formatter.formatException(record.exc_info).splitlines() if record.exc_info else []


def configure(form: Form, stream: TextIO | None = None) -> None:
    """Send every log of this process to a stream, in one form; ours from info on, others' warnings."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("onefold").setLevel(logging.INFO)
    logging.captureWarnings(True)
