"""Every error has one shape: what, where the value came from, why, whether anything ran, what to try."""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from onefold import Key, Ledger
from onefold.cli.codes import Code
from onefold.cli.decisions import retry_key
from onefold.cli.frame import Asked
from onefold.cli.opened import Opened
from onefold.cli.problems import Problem, from_library, from_surprise
from onefold.core import audit
from onefold.core.entry import UNKNOWN, Change, Reply
from onefold.core.errors import Busy, Locked, LostClaim, Misconfigured, Unreachable, Unsettled
from onefold.core.operate import look
from onefold.drive import Ports, run
from onefold.stores.sqlite import SqliteStore
from onefold.testing.clock import FakeClock
from tests.fast.cli.stage import Cli, done, failed

pytestmark = pytest.mark.store("sqlite")

KEY = Key("charges", 1)


def missing(path: Path) -> None:
    pass


def not_a_database(path: Path) -> None:
    path.write_text("these are not the bytes you are looking for" * 10)


def cut_short(path: Path) -> None:
    _valid(path)
    os.truncate(path, path.stat().st_size // 2)


def from_the_future(path: Path) -> None:
    _valid(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE onefold_meta SET value = '999'")
    connection.close()


def somebody_elses(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()


def overwritten(path: Path) -> None:
    _valid(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)


def _valid(path: Path) -> None:
    book = Ledger(f"sqlite:///{path}")
    done(book, KEY)
    book.close()
    # The log is folded into the file when its last user leaves.
    assert not path.with_name(f"{path.name}-wal").exists()


BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (missing, "does not exist"),
    (not_a_database, "is not an SQLite database"),
    (cut_short, "is cut short"),
    (from_the_future, "was written by a newer Onefold"),
    (somebody_elses, "without a ledger in it"),
    (overwritten, "damaged"),
]


@pytest.mark.parametrize(("breaks", "reason"), BROKEN)
@pytest.mark.parametrize(
    "words", [["status"], ["list"], ["why", "charges", "1"], ["retry", "charges", "1", "-y"]]
)
def test_a_store_that_cannot_be_used_is_unreachable(
    cli: Cli, here: Path, breaks: Callable[[Path], None], reason: str, words: list[str]
):
    breaks(here / "onefold.db")

    result = cli(*words)

    assert result.exit_code == Code.UNREACHABLE
    assert result.stdout == ""
    what, store, why, effect, step = result.stderr.splitlines()
    assert what in ("error: there is no ledger here", "error: the store cannot be used")
    assert store.split()[0] == "store"
    assert store.endswith("onefold.db  (from the default)")
    assert why.split()[0] == "reason"
    assert reason in why
    assert effect == "  effect  no effect ran, and nothing was written"
    assert step.split()[0] == "try"


@pytest.mark.parametrize(("breaks", "reason"), BROKEN)
def test_a_store_that_cannot_be_used_is_left_as_it_was(
    cli: Cli, here: Path, breaks: Callable[[Path], None], reason: str
):
    path = here / "onefold.db"
    breaks(path)
    before = path.read_bytes() if path.exists() else None

    cli("status")
    cli("doctor")

    assert (path.read_bytes() if path.exists() else None) == before


def test_an_error_is_told_to_programs_too(cli: Cli):
    result = cli("status", "--json")

    told = json.loads(result.stderr)["error"]
    assert told["code"] == Code.UNREACHABLE
    assert told["what"] == "there is no ledger here"
    assert told["origin"] == "the default"
    assert told["effect"] == "no effect ran, and nothing was written"
    assert told["steps"]
    assert result.stdout == ""


def test_usage_errors_have_the_same_shape(cli: Cli):
    result = cli("why", "--json")

    told = json.loads(result.stderr)["error"]
    assert (told["code"], told["steps"]) == (Code.USAGE, ["onefold why --help"])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statsu"], "did you mean status?"),
        (["store", "pruge"], "did you mean purge?"),
        (["xyzzy"], "these are known: run, status"),
        (["list", "--praked"], "--parked"),
        (["--jsn", "status"], "--json"),
        (["store", "sql", "sqlit:///x.db"], "did you mean sqlite?"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(cli: Cli, words: list[str], hint: str):
    result = cli(*words)

    assert result.exit_code == Code.USAGE
    assert hint in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "sqlite://",
        "sqlite://host/x.db",
        "sqlite:///x.db?fast=yes",
        "memory:",
        "",
        " ",
    ],
)
def test_a_url_that_names_no_store_is_an_error_of_usage(cli: Cli, url: str):
    result = cli("status", "--store", url)

    assert result.exit_code == Code.USAGE
    assert result.stderr.startswith("error: no store is named\n")
    assert "the command line" in result.stderr


def test_a_database_of_redis_that_is_no_number_is_an_error_of_usage(cli: Cli):
    pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")

    result = cli("status", "--store", "redis://localhost/orders")

    assert result.exit_code == Code.USAGE
    assert result.stderr.startswith("error: no store is named\n")
    assert "the command line" in result.stderr


def test_an_error_says_who_named_the_store(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "onefold.toml").write_text('store = "sqlite:///elsewhere.db"')
    assert f"elsewhere.db  (from {here / 'onefold.toml'})" in cli("status").stderr

    monkeypatch.setenv("ONEFOLD_STORE", "sqlite:///other.db")
    assert "other.db  (from $ONEFOLD_STORE)" in cli("status").stderr
    assert "third.db  (from the command line)" in cli("status", "--store", "sqlite:///third.db").stderr


@pytest.mark.parametrize("text", ["store = ", "store = 5", 'store = "nonsense"'])
def test_a_bad_setting_is_an_error_of_usage(cli: Cli, here: Path, text: str):
    (here / "onefold.toml").write_text(text)

    result = cli("status")

    assert result.exit_code == Code.USAGE
    assert str(here / "onefold.toml") in result.stderr


SECRET_URLS = [
    "postgresql://ann:hun/ter2@db/app",
    "postgresql://ann:my hunter2@db/app",
    "postgresql://ann:my'\"?#hunter2@db/app",
    "redis://db/0?password=hunter2&x=1",
    "mongodb://db/app?authToken=hunter2",
    "sqlite://ann:hunter2@host/x.db",
    "sqlite:///x.db?sslpassword=hunter2",
    "sqlite:///x.db?api_key=hunter2",
]


OPTIONS = [[], ["--json"], ["--debug"]]
COMMANDS = [["status"], ["doctor"], ["why", "charges", "1"], ["store", "sql"]]


@pytest.mark.parametrize("url", SECRET_URLS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("words", COMMANDS)
def test_no_secret_is_ever_printed(cli: Cli, url: str, options: list[str], words: list[str]):
    # Of servers that are asked and do not answer, see tests/processes/cli.
    result = cli(*words, *options, "--store", url)

    assert "hunter2" not in result.output
    assert "ter2" not in result.output


def test_a_file_whose_path_has_an_at_sign_is_named_in_full(cli: Cli, here: Path):
    (here / "a@b").mkdir()

    assert (
        f"sqlite:///{here}/a@b/onefold.db "
        in cli("status", "--store", f"sqlite:///{here}/a@b/onefold.db").stderr
    )


def test_tracebacks_are_for_those_who_ask(cli: Cli):
    plain, debug = cli("status"), cli("status", "--debug")

    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr
    assert debug.stderr.endswith(plain.stderr)
    assert plain.exit_code == debug.exit_code == Code.UNREACHABLE


def test_a_login_without_a_name_must_say_who_decides(cli: Cli, book: Ledger, monkeypatch: pytest.MonkeyPatch):
    failed(book, KEY)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)

    result = cli("retry", "charges", "1", "-y")

    assert result.exit_code == Code.USAGE
    assert "--by NAME" in result.stderr


class Silent(SqliteStore):
    """A store that writes, and does not say so."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        super().swap(changes)
        return [UNKNOWN] * len(changes)


class Amnesic(SqliteStore):
    """A store that forgets to write decisions, and cannot say whether it did; notes it keeps."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        if changes[0].key.scope == audit.SCOPE:
            return super().swap(changes)
        return [UNKNOWN] * len(changes)


def test_a_note_that_is_not_confirmed_stops_the_act(book: Ledger):
    failed(book, KEY)
    before = book.look(KEY)
    place = Opened("sqlite:///onefold.db", "the default", Ports(Silent("onefold.db"), FakeClock()))

    with pytest.raises(Problem) as problem:
        retry_key(place, KEY, place.run(look([KEY]))[0], "ann", "", Asked(yes=True))

    assert problem.value.code == Code.UNREACHABLE
    assert "nothing was decided" in problem.value.facts.reason
    assert book.look(KEY) == before


def test_a_decision_that_is_not_confirmed_is_not_called_written(book: Ledger):
    failed(book, KEY)
    place = Opened("sqlite:///onefold.db", "the default", Ports(Amnesic("onefold.db"), FakeClock()))

    with pytest.raises(Problem) as problem:
        retry_key(place, KEY, place.run(look([KEY]))[0], "ann", "", Asked(yes=True))

    assert problem.value.code == Code.UNREACHABLE
    assert "not known" in problem.value.facts.effect
    assert problem.value.facts.steps == ("onefold why charges 1",)
    assert [act["act"] for act in run(audit.acts(KEY), place.ports)] == ["retry"]


@pytest.mark.parametrize(
    ("error", "code", "effect"),
    [
        (Misconfigured("x"), Code.USAGE, "no effect ran"),
        (Unreachable("x"), Code.UNREACHABLE, "no effect ran"),
        (Locked("x"), Code.UNREACHABLE, "no effect ran"),
        (Busy(KEY, 1.0), Code.FAILED, "no effect ran"),
        (LostClaim(KEY), Code.FAILED, "not known whether it took place"),
        (Unsettled(KEY), Code.FAILED, "it took place"),
    ],
)
def test_an_error_of_the_library_says_whether_an_effect_ran(error, code: Code, effect: str):
    problem = from_library(error)

    assert problem.code == code
    assert problem.facts.effect.startswith(effect)


def test_an_error_that_nobody_foresaw_asks_for_a_report():
    problem = from_surprise(ZeroDivisionError("by zero"))

    assert problem.code == Code.FAILED
    assert "ZeroDivisionError: by zero" in "\n".join(problem.lines())
    assert "--debug" in "\n".join(problem.lines())
