"""The pages of the applications: every command on them is run, and their settings are the true ones."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from onefold.worker.apps import built_in, load
from tests.checkout import ROOT
from tests.fast.docs.pages import blocks
from tests.fast.docs.runner import commands

APPS = built_in()
OF_THE_APP = re.compile(r"^\| *(?:setting|in `\[apps\.\w+\]`) *\|")
CODE = re.compile(r"`([^`]+)`")


def page(app: str) -> str:
    return (ROOT / "docs" / "apps" / f"{app}.md").read_text("utf-8")


# ----- commands


def unrun(text: str) -> list[str]:
    """Name the lines that look like a command and are not run."""
    found = list(blocks(text))
    shown = [line for block in found for line in block.text.splitlines() if line.startswith("$ ")]
    run = [f"$ {command}".splitlines()[0] for block in found for _, command, _ in ran(block)]
    return [line for line in shown if line.rstrip("\\ ") not in [one.rstrip("\\ ") for one in run]]


def ran(block: Any) -> Iterator[tuple[int, str, int]]:
    return commands(block) if block.language in ("console", "sh") else iter(())


@pytest.mark.parametrize("app", APPS)
def test_every_command_on_the_page_of_an_application_is_run(app):
    run = [command for block in blocks(page(app)) for _, command, _ in ran(block)]

    assert unrun(page(app)) == []
    assert any(command.startswith(f"onefold run {app}") for command in run)


@pytest.mark.parametrize("block", ["```console\n$ pip install x\n```\n", "```text\n$ onefold status\n```\n"])
def test_a_command_that_is_not_run_would_be_found(block):
    assert len(unrun(f"Words.\n\n{block}")) == 1


# ----- settings


def tables(text: str) -> Iterator[list[str]]:
    """Give the rows of each table of settings, without its head."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if OF_THE_APP.match(line):
            rows = lines[at + 2 :]
            yield rows[: next((n for n, row in enumerate(rows) if not row.startswith("|")), len(rows))]


def shown(text: str) -> dict[str, Any]:
    """Read the settings that a page names; None where it gives no value, and of several the first."""
    found = [pair for rows in tables(text) for row in rows for pair in read(row)]
    return dict(reversed(found))


def read(row: str) -> Iterator[tuple[str, Any]]:
    cells = [CODE.findall(cell) for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    for at, span in enumerate(cells[0]):
        if re.fullmatch(r"\w+", span):
            given = cells[1] if len(cells) > 2 and len(cells[1]) == len(cells[0]) else []
            yield span, tomllib.loads(f"x = {given[at]}")["x"] if given else None
        else:
            yield from values(span)


def values(span: str) -> Iterator[tuple[str, Any]]:
    try:
        yield from tomllib.loads(span).items()
    except tomllib.TOMLDecodeError:
        yield span.partition(" ")[0], None


def defaults(app: str) -> dict[str, Any]:
    return {
        field.name: None if field.required else msgspec.to_builtins(default(field), enc_hook=str)
        for field in msgspec.structs.fields(load(app).settings)
    }


def default(field: Any) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def untrue(told: Mapping[str, Any], true: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a page says of a default that is another; where there is none, it shows an example."""
    return {
        name: (told[name], true[name])
        for name in told
        if told[name] is not None and true.get(name) and not same(told[name], true[name])
    }


def same(told: Any, true: Any) -> bool:
    if isinstance(true, dict):
        return bool(told.keys() == true.keys())
    if isinstance(true, list | tuple):
        pairs = zip(told, true, strict=False)
        return len(told) == len(true) and all(same(one, other) for one, other in pairs)
    return bool(told == true) or (isinstance(true, float) and abs(told - true) < 0.0005)


@pytest.mark.parametrize("app", APPS)
def test_the_page_of_an_application_names_every_setting_with_its_true_default(app):
    told, true = shown(page(app)), defaults(app)

    assert set(told) == set(true)
    assert untrue(told, true) == {}


def test_a_default_that_is_not_the_true_one_would_be_found():
    row = '| setting | |\n|---|---|\n| `lag = "10m"`, `page = 5` | words |\n| `id` | `"b"` | words |\n'

    assert shown(row) == {"lag": "10m", "page": 5, "id": "b"}
    assert untrue(shown(row), {"lag": "1m", "page": 5, "id": "b"}) == {"lag": ("10m", "1m")}
