"""Settings come from flags, the environment or `onefold.toml`, know where from, and are refused in words."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from onefold.core.errors import Misconfigured
from onefold.stores.configured import line_of
from onefold.stores.locate import locate
from onefold.worker.configuration import (
    Configuration,
    Section,
    Value,
    nearest,
    read,
    struct,
    worker_settings,
)
from onefold.worker.secret import Secret, masked

TEXT = """\
store = "sqlite:///shop.db"

[worker]
grace = "10s"

[pipelines.prices]
use = "shop:pipeline"
keep = "8d"

[apps.whales]
chat_token = "env:CHAT_TOKEN"
"""


class Whales(msgspec.Struct, frozen=True):
    """What the app of these tests may be told."""

    chat_token: Secret
    minimum: float = 10_000.0
    names: list[str] = []


def written(folder: Path, text: str) -> Configuration:
    (folder / "onefold.toml").write_text(text)
    return read(folder / "onefold.toml")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(Misconfigured) as error:
        whales(written(folder, text))
    return str(error.value)


def whales(found: Configuration) -> Whales:
    return struct(Whales, found.apps["whales"], found.folder)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONEFOLD_GRACE", "ONEFOLD_LISTEN", "ONEFOLD_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CHAT_TOKEN", "123:very-secret")


# ----- where values come from


def test_every_value_knows_its_file_and_line(tmp_path: Path):
    found = written(tmp_path, TEXT)

    assert found.pipelines["prices"].values["keep"] == Value("8d", f"{tmp_path}/onefold.toml, line 8")
    assert found.worker.values["grace"].origin.endswith("line 4")
    assert found.apps["whales"].values["chat_token"].origin.endswith("line 11")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[apps.whales]\nminimum = 1", 2),
        ("[apps.whales]\n  minimum=1", 2),
        ('[apps."whales"]\n"minimum" = 1', 2),
        ("[apps.other]\nminimum = 1\n[ apps.whales ]\n\nminimum = 2", 5),
        ("apps.whales.minimum = 1", None),
        ("[apps]\nwhales = {minimum = 1}", None),
    ],
)
def test_the_line_of_a_setting_is_found_where_it_is_written_plainly(text: str, line: int | None):
    assert line_of(text, "apps.whales", "minimum") == line


def test_a_flag_beats_the_environment_and_the_environment_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = written(tmp_path, '[worker]\ngrace = "1s"\nlog = "text"\nlisten = "127.0.0.1:1"\n')
    monkeypatch.setenv("ONEFOLD_LOG", "json")
    monkeypatch.setenv("ONEFOLD_LISTEN", "127.0.0.1:2")

    settings, origins = worker_settings(found, {"listen": "127.0.0.1:3", "log": None})

    assert (settings.grace, settings.log, settings.listen) == ("1s", "json", "127.0.0.1:3")
    assert origins["grace"].origin.endswith("line 2")
    assert (origins["log"].origin, origins["listen"].origin) == ("$ONEFOLD_LOG", "--listen")


def test_without_a_file_there_are_only_defaults(tmp_path: Path):
    settings, origins = worker_settings(nearest(tmp_path), {})

    assert (settings.grace, settings.listen, settings.log) == ("30s", None, "text")
    assert {one.origin for one in origins.values()} == {"the default"}


@pytest.mark.parametrize(("text", "purges"), [("", True), ("[worker]\npurge = false\n", False)])
def test_a_setting_turns_the_purge_of_workers_off(tmp_path: Path, text: str, purges: bool):
    settings, _ = worker_settings(written(tmp_path, text), {})

    assert settings.purge is purges


def test_the_nearest_file_upwards_is_read(tmp_path: Path):
    written(tmp_path, TEXT)
    (tmp_path / "a" / "b").mkdir(parents=True)

    assert nearest(tmp_path / "a" / "b").folder == tmp_path


# ----- what is refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pipeline = 1", ["no setting 'pipeline'", "did you mean pipelines?", "onefold.toml"]),
        ("zebra = 1", ["these are known: store, worker, pipelines, apps"]),
        ("apps = 3", ["apps", "is no table: write [apps.NAME]"]),
        ("[apps]\nwhales = 3", ["apps.whales", "is no table"]),
        ("[apps.x]\n[pipelines.x]\n", ["[pipelines.x] and [apps.x]", "rename one"]),
        ("[apps.whales", ["onefold.toml cannot be read"]),
        (
            '[apps.whales]\nchat_token = "env:CHAT_TOKEN"\nminimun = 3',
            ["[apps.whales] has no setting 'minimun'", "did you mean minimum?", "line 3"],
        ),
        (
            '[apps.whales]\nchat_token = "env:CHAT_TOKEN"\nminimum = "much"',
            ["minimum of [apps.whales] is wrong: Expected float, got str", "line 3"],
        ),
        (
            '[apps.whales]\nchat_token = "env:CHAT_TOKEN"\nnames = ["a", 3]',
            ["names[1] of [apps.whales] is wrong: Expected str, got int", "line 3"],
        ),
        ("[apps.whales]\nminimum = 3", ["[apps.whales] needs chat_token: add it to onefold.toml"]),
    ],
)
def test_what_is_wrong_is_named_with_where_it_stands(tmp_path: Path, text: str, words: list[str]):
    said = refused(tmp_path, text)

    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("settings", "flags", "words"),
    [
        ({"grace": Value("soon", "$ONEFOLD_GRACE")}, {}, ["grace (from $ONEFOLD_GRACE) is 'soon'"]),
        ({"log": Value("xml", "onefold.toml, line 2")}, {}, ["log of [worker] is wrong", "line 2"]),
        ({"lsten": Value("x", "onefold.toml, line 2")}, {}, ["did you mean listen?", "line 2"]),
        ({}, {"log": "xml"}, ["log of [worker] is wrong", "from --log"]),
    ],
)
def test_a_wrong_setting_of_the_worker_is_named_with_where_it_came_from(
    tmp_path: Path, settings: dict[str, Value], flags: dict[str, str], words: list[str]
):
    with pytest.raises(Misconfigured) as error:
        worker_settings(Configuration(tmp_path, Section("worker", settings), {}, {}), flags)

    assert [word for word in words if word not in str(error.value)] == []


# ----- secrets


def test_a_secret_comes_from_the_environment_or_a_file_beside_the_configuration(tmp_path: Path):
    (tmp_path / "token").write_text("from-the-file\n")

    by_name = whales(written(tmp_path, '[apps.whales]\nchat_token = "env:CHAT_TOKEN"'))
    by_file = whales(written(tmp_path, '[apps.whales]\nchat_token = "file:token"'))

    assert (by_name.chat_token, by_file.chat_token) == ("123:very-secret", "from-the-file")


def test_a_secret_is_not_shown_and_is_masked_wherever_it_turns_up(tmp_path: Path):
    settings = whales(written(tmp_path, '[apps.whales]\nchat_token = "env:CHAT_TOKEN"'))

    assert "very-secret" not in repr(settings)
    assert masked("POST https://api.example.org/bot123:very-secret/send: 404") == (
        "POST https://api.example.org/bot***/send: 404"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("99:a-bare-token", ["chat_token of [apps.whales]", "written in the clear", "env:NAME", "line 2"]),
        ("env:NOT_THERE", ["env:NOT_THERE", "$NOT_THERE is not set", "line 2"]),
        ("env:99:a-bare-token", ["no name of a variable"]),
        ("file:gone", ["gone, which cannot be read: No such file"]),
        ("file:empty", ["empty"]),
    ],
)
def test_a_secret_that_cannot_be_had_says_where_it_was_looked_for(
    tmp_path: Path, value: str, words: list[str]
):
    (tmp_path / "empty").write_text("\n")

    said = refused(tmp_path, f'[apps.whales]\nchat_token = "{value}"')

    assert [word for word in words if word not in said] == []
    assert "a-bare-token" not in said


def test_a_short_text_is_not_taken_out_of_every_word():
    Secret("a")

    assert masked("a banana") == "a banana"


class Shop(msgspec.Struct, frozen=True):
    """An app that is told of databases."""

    tables: list[str]


def test_a_relative_database_lies_beside_the_file_that_names_it_as_the_store_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    urls = ["sqlite:///shop.db", "sqlite:////elsewhere/shop.db", "postgresql://h/shop", "shop.db"]
    found = written(tmp_path, f'store = "sqlite:///shop.db"\n[apps.shop]\ntables = {urls}\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)

    told = struct(Shop, found.apps["shop"], found.folder).tables

    assert told == [locate().url, *urls[1:]]
    assert told[0] == f"sqlite:///{tmp_path}/shop.db"
