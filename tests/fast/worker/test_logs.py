"""Logs are one line each, for people or programs, and hold no secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from onefold.worker.logs import Form, configure
from onefold.worker.secret import Secret


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("onefold")
    handlers, level, own = list(root.handlers), root.level, ours.level
    yield
    root.handlers[:], root.level = handlers, level
    ours.setLevel(own)
    logging.captureWarnings(False)


def logged(form: Form, text: str, **more: object) -> str:
    stream = io.StringIO()
    configure(form, stream)
    logging.getLogger("onefold.worker").error(text, **more)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_line_of_json_has_its_time_level_and_names():
    line = json.loads(logged("json", "it fell behind", extra={"pipeline": "prices", "source": "feed"}))

    assert line["at"].endswith("Z")
    assert {**line, "at": ""} == {
        "at": "",
        "level": "error",
        "logger": "onefold.worker",
        "message": "it fell behind",
        "pipeline": "prices",
        "source": "feed",
    }


def test_a_line_of_text_has_its_time_and_level():
    assert logged("text", "it fell behind").endswith("Z  error    it fell behind\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked_in_messages_and_tracebacks(form: Form):
    Secret("token-of-ann")
    try:
        raise OSError("GET https://ann:hunter2@example.org/?key=abc token-of-ann")
    except OSError as error:
        text = logged(form, f"failed: {error}", exc_info=True)

    assert "Traceback" in text
    for secret in ("hunter2", "abc", "token-of-ann"):
        assert secret not in text


def test_what_the_outside_said_stays_on_one_line():
    assert logged("text", "it said \x1b[2J\n2026-01-01 info all is well").count("\n") == 1
    assert "\\x1b" in logged("text", "\x1b[2J")


def test_ours_are_told_from_info_on_and_others_from_warnings_on():
    stream = io.StringIO()
    configure("text", stream)
    logging.getLogger("onefold.worker").info("ours")
    logging.getLogger("httpx2").info("theirs")
    logging.getLogger("httpx2").warning("their warning")

    assert [line.split("  ")[-1].strip() for line in stream.getvalue().splitlines()] == [
        "ours",
        "their warning",
    ]
