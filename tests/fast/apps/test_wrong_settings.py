"""A setting of an application that is missing or wrong is named with what to do, and nothing runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from onefold.cli.codes import Code
from onefold.cli.root import onefold
from onefold.worker.apps import built_in, load

WALLET = "0x00000000000000000000000000000000000a11ce"
GOOD = {
    "whales": {"chat_token": '"env:A_TOKEN"'},
    "messages": {"processor": '"p"', "command": '["true"]'},
    "candles": {"api_key": '"env:A_TOKEN"', "pairs": '["EUR/USD"]', "since": '"2025-10-06"'},
    "listings": {
        "database": '"sqlite:///flats.db"',
        "chat_token": '"env:A_TOKEN"',
        "sites": '{ a = { url = "https://a.example", fields = { title = "t" } } }',
    },
    "copytrade": {"leaders": f'["{WALLET}"]'},
}
WRONG = [
    ("whales", "chat_token", '"123:abc"', ["chat_token", "env:NAME or file:PATH"]),
    ("whales", "chat_token", '"env:NOT_SET_HERE"', ["chat_token", "export NOT_SET_HERE"]),
    ("whales", "every", '"soon"', ["every", "'soon'", "90s"]),
    ("whales", "page", "1", ["page is 1", "write 2 to"]),
    ("whales", "page", '"many"', ["page of [apps.whales]", "int"]),
    ("whales", "keep", '"1d"', ["keeps 1d", "raise keep"]),
    ("whales", "subscribers", "[{ chat = 5 }]", ["subscribers", "str"]),
    ("messages", "command", "[]", ["one way to send is needed", "mail"]),
    ("messages", "timeout", '"soon"', ["timeout", "'soon'", "90s"]),
    ("messages", "mail", '{ server = "smtp://h" }', ["mail.sender", "add it to onefold.toml"]),
    ("candles", "pairs", '["EURUSD"]', ["EURUSD", "write it like"]),
    ("candles", "since", '"yesterday"', ["since of [apps.candles] is 'yesterday'", "write"]),
    ("candles", "timeframes", '["2m"]', ["timeframe", "write one of 1m"]),
    ("candles", "bars", '"mariadb://h/d"', ["bars", "SQLite or PostgreSQL"]),
    ("candles", "api_key", '"in-the-clear"', ["api_key", "env:NAME or file:PATH"]),
    ("listings", "database", '"redis://h"', ["database", "names no database"]),
    ("listings", "sites", "{}", ["no sites", "[apps.listings.sites.NAME]"]),
    ("listings", "window", '"1s"', ["window", "1m"]),
    ("listings", "chat_token", '"123:abc"', ["chat_token", "env:NAME or file:PATH"]),
    ("copytrade", "leaders", '["bob"]', ["'bob' is no wallet", "write 0x and 40"]),
    ("copytrade", "leaders", "[]", ["leaders is empty", "name the wallets"]),
    ("copytrade", "rules", '{ "*" = { tolerance = 2.0 } }', ["tolerance", "below 1"]),
    ("copytrade", "streams", '["https://x.example"]', ["https", "wss"]),
    ("copytrade", "orders_url", '"ftp://x"', ["orders_url", "write https://"]),
    ("copytrade", "depth", "0", ["depth is 0", "write 1 or more"]),
]


def complaint(
    app: str, folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str] | None
) -> str:
    """Run an app in an empty folder with these settings alone; return what it says on its way out."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)
    monkeypatch.setenv("A_TOKEN", "123456:a-token-of-nobody")
    if settings is not None:
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        (folder / "onefold.toml").write_text(f"[apps.{app}]\n{lines}\n")
    before = sorted(folder.iterdir())

    ended = CliRunner().invoke(onefold, ["run", app, "--once"])

    assert ended.exit_code == Code.USAGE
    assert sorted(folder.iterdir()) == before, "nothing was made"
    assert "no effect ran, and nothing was written" in ended.stderr
    return ended.stderr


def test_every_application_is_held_here():
    assert sorted(GOOD) == sorted(built_in())
    assert {app for app, *_ in WRONG} == set(GOOD)


@pytest.mark.parametrize("app", GOOD)
def test_an_application_without_a_section_says_which_one_to_write(app, tmp_path, monkeypatch):
    told = complaint(app, tmp_path, monkeypatch, None)

    assert f"write [apps.{app}] into onefold.toml" in told


NEEDED = [
    (app, field.name)
    for app in GOOD
    for field in msgspec.structs.fields(load(app).settings)
    if field.required
]


@pytest.mark.parametrize(("app", "name"), NEEDED)
def test_a_setting_that_is_needed_and_missing_is_named_with_where_to_write_it(
    app, name, tmp_path, monkeypatch
):
    settings = {key: value for key, value in GOOD[app].items() if key != name}

    told = complaint(app, tmp_path, monkeypatch, settings)

    assert f"[apps.{app}] needs {name}: add it to onefold.toml" in told


@pytest.mark.parametrize("app", GOOD)
def test_a_setting_that_is_misspelt_is_met_with_the_nearest_name(app, tmp_path, monkeypatch):
    told = complaint(app, tmp_path, monkeypatch, {**GOOD[app], "atempts": "3"})

    assert "no setting 'atempts': did you mean attempts?" in told
    assert f"{tmp_path / 'onefold.toml'}, line {len(GOOD[app]) + 2}" in told


@pytest.mark.parametrize(("app", "name", "value", "says"), WRONG)
def test_a_wrong_setting_is_named_with_what_to_do(app, name, value, says, tmp_path, monkeypatch):
    told = complaint(app, tmp_path, monkeypatch, {**GOOD[app], name: value})

    for part in says:
        assert part in told
    assert "123:abc" not in told
    assert "in-the-clear" not in told
