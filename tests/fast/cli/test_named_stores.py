"""Nobody gets another ledger by mistake: misspelt and empty names of a store are refused everywhere.

A script that runs a worker must name its store, because a script may start in another folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from onefold import AsyncLedger, Key, Ledger, Pipeline
from onefold.cli.codes import Code
from onefold.core.errors import Misconfigured
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads
from onefold.stores.configured import PIPELINE, WORKER
from onefold.worker.configuration import PipelineSettings, WorkerSettings
from onefold.worker.moving import store_at
from onefold.worker.running import Worker
from tests.fast.cli.shop import open_shop, outside
from tests.fast.cli.stage import Cli, ledger

pytestmark = pytest.mark.store("sqlite")

KEY = Key("charges", "A-17")
COMMANDS = [
    ["run"],
    ["status"],
    ["list"],
    ["why", "charges", "A-17"],
    ["resolve", "charges", "A-17", "--happened", "-y"],
    ["retry", "charges", "A-17", "-y"],
    ["cursors"],
    ["cursors", "set", "charges", "orders", "1", "-y"],
    ["coverage"],
    ["sources"],
    ["settings", "get"],
    ["settings", "put", "shop.names", "names.json", "-y"],
    ["store", "sql"],
    ["store", "purge", "-y"],
    ["doctor"],
]
MISSPELT = [
    ('stor = "sqlite:///shop.db"', "there is no setting 'stor': did you mean store? (from {file})"),
    ('[pipeline.prices]\nuse = "x"', "there is no setting 'pipeline': did you mean pipelines? (from {file})"),
    ('[worker]\ngrase = "9s"', "[worker] has no setting 'grase': did you mean grace? (from {file}, line 2)"),
    (
        '[pipelines.prices]\nuse = "x"\nkepe = "8d"',
        "[pipelines.prices] has no setting 'kepe': did you mean keep? (from {file}, line 3)",
    ),
    ('store = ""', "store in {file} is empty: write a URL"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("text", "says"), MISSPELT)
def test_every_command_refuses_a_misspelt_name_in_the_settings(
    cli: Cli, here: Path, words: list[str], text: str, says: str
):
    (here / "names.json").write_text("[]")
    (here / "onefold.toml").write_text(f"{text}\n")

    result = cli(*words)

    assert result.exit_code == Code.USAGE
    assert says.format(file=here / "onefold.toml") in result.stderr
    assert not (here / "onefold.db").exists()


@pytest.mark.parametrize(("text", "says"), MISSPELT)
def test_the_library_refuses_a_misspelt_name_in_the_settings(here: Path, text: str, says: str):
    (here / "below").mkdir()
    (here / "onefold.toml").write_text(f"{text}\n")
    told = says.format(file=here / "onefold.toml")

    with pytest.raises(Misconfigured) as blocking:
        Ledger().look(KEY)
    with pytest.raises(Misconfigured) as awaited:
        asyncio.run(AsyncLedger().look(KEY))

    assert told in str(blocking.value)
    assert told in str(awaited.value)


def test_the_names_that_are_checked_are_those_that_the_worker_reads():
    assert [field.name for field in msgspec.structs.fields(WorkerSettings)] == list(WORKER)
    assert {field.name for field in msgspec.structs.fields(PipelineSettings)} == set(PIPELINE)


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_url_is_refused_before_anything_runs(here: Path, url: str):
    pipeline = Pipeline(
        "charges",
        sources={"orders": Reads(lambda cursor: [], finite=True)},
        key=lambda record: record.id,
        sink=Function(print),
    )
    makers: list[Callable[[str], object]] = [
        Ledger,
        AsyncLedger,
        lambda url: Worker([pipeline], store=url),
        store_at,
    ]
    for makes in makers:
        with pytest.raises(Misconfigured, match="the URL of the store is empty"):
            makes(url)

    assert not (here / "onefold.db").exists()


def test_an_empty_variable_is_no_store(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ONEFOLD_STORE", "")

    with pytest.raises(Misconfigured, match=r"\$ONEFOLD_STORE is empty"):
        Ledger().look(KEY)
    assert "$ONEFOLD_STORE is empty" in cli("status").stderr
    assert not (here / "onefold.db").exists()


# ----- a worker that a script starts


def test_a_script_that_names_no_store_runs_nothing_and_is_told_what_to_write(here: Path, cli: Cli):
    open_shop(here)
    (here / "onefold.toml").unlink()

    refused = cli("run", "prices.py:pipeline")
    written = cli("run", "prices.py:pipeline", "--store", f"sqlite:///{here}/onefold.db")

    assert refused.exit_code == Code.UNSAFE
    assert f'write store = "sqlite:///{here}/onefold.db" into onefold.toml' in refused.stderr
    assert f"onefold run --store sqlite:///{here}/onefold.db" in refused.stderr
    assert written.exit_code == Code.FINE
    assert outside(here) == {"r1": 1, "r2": 1}


def test_a_script_that_puts_a_setting_names_its_store_too(here: Path, cli: Cli):
    # It would create the file that a worker, started by the same script, then takes for an existing ledger.
    (here / "subscribers.json").write_text("[]")
    put = ("settings", "put", "whales.subscribers", "subscribers.json")

    refused = cli(*put)
    written = cli(*put, "--store", f"sqlite:///{here}/onefold.db")

    assert refused.exit_code == Code.UNSAFE
    assert f"onefold settings put --store sqlite:///{here}/onefold.db" in refused.stderr
    assert written.exit_code == Code.FINE, written.stderr


def test_a_script_uses_a_default_file_that_exists(here: Path, cli: Cli):
    open_shop(here)
    (here / "onefold.toml").unlink()
    ledger().call(KEY, lambda: None)

    assert cli("run", "prices.py:pipeline").exit_code == Code.FINE


def test_the_same_script_in_another_folder_sends_nothing_twice(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    open_shop(here)
    (here / "onefold.toml").unlink()
    ledger().call(KEY, lambda: None)
    assert cli("run", "prices.py:pipeline").exit_code == Code.FINE
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    open_shop(elsewhere)
    (elsewhere / "onefold.toml").unlink()

    assert cli("run", "prices.py:pipeline").exit_code == Code.UNSAFE
    assert outside(elsewhere) == {}


def test_a_person_at_a_terminal_gets_the_default_file_and_is_told(here: Path, cli: Cli):
    open_shop(here)
    (here / "onefold.toml").unlink()

    result = cli.at_terminal("run", "prices.py:pipeline")

    assert result.exit_code == Code.FINE
    assert "creating the ledger" in result.stderr
    assert (here / "onefold.db").exists()


def test_a_ledger_in_code_keeps_its_default_file(here: Path):
    Ledger().call(KEY, lambda: None)

    assert (here / "onefold.db").exists()
