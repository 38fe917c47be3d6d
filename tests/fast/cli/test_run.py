"""`onefold run`: what it runs, what it prints, what it refuses, and what a running worker follows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from onefold.cli.codes import Code
from onefold.runtime import current
from tests.fast.cli.shop import begun, feed, open_shop, outside
from tests.fast.cli.stage import Cli
from tests.waiting import until

pytestmark = pytest.mark.store("sqlite")

RECORDS = [{"id": f"r{number}", "at": number} for number in range(10)]


@pytest.fixture
def shop(here: Path) -> Path:
    open_shop(here, *RECORDS)
    return here


# ----- by itself


@pytest.mark.parametrize("name", ["prices", "prices:pipeline", "prices.py:pipeline", "prices.py"])
def test_a_finite_pipeline_runs_to_its_end_by_every_name(shop: Path, cli: Cli, name: str):
    result = cli("run", name)

    assert result.exit_code == Code.FINE, result.stderr
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}
    assert result.stdout == "prices/feed: 10 records seen, 10 done\n"


def test_without_names_every_section_runs(shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAT_TOKEN", "123:secret")

    result = cli("run", "--json")

    account = json.loads(result.stdout)
    assert result.exit_code == account["code"] == Code.FINE
    assert account["pipelines"]["prices"]["feed"]["done"] == 10
    assert account["pipelines"]["told"]["feed"]["done"] == 10


def test_once_ends_an_endless_pipeline_when_it_has_read_everything_and_a_second_run_does_nothing(
    shop: Path, cli: Cli
):
    codes = [cli("run", "prices:live", "--once").exit_code for _ in range(2)]
    feed(shop, {"id": "r10", "at": 10})
    codes.append(cli("run", "prices:live", "--once").exit_code)

    assert codes == [Code.FINE] * 3
    assert set(outside(shop).values()) == {1}
    assert len(outside(shop)) == 11


def test_an_effect_in_doubt_needs_a_person_and_its_error_holds_no_secret(shop: Path, cli: Cli):
    feed(shop, {"id": "bad", "at": 11, "trouble": "doubt"})

    result = cli("run", "prices", "--once")
    told = cli.json("why", "prices", "bad")

    assert result.exit_code == Code.PERSON
    assert told["error"] == {"type": "TimeoutError", "message": "no answer from https://***@bank.example"}
    assert "hunter2" not in result.stderr + json.dumps(told)


@pytest.mark.parametrize("name", ["prices", "prices:live"])
def test_work_that_waits_after_a_run_is_stated_in_the_last_line_with_its_time(
    shop: Path, cli: Cli, name: str
):
    feed(shop, {"id": "later", "at": 11, "trouble": "refused"})

    result = cli("run", name, "--once")

    assert result.exit_code == Code.FINE
    last = result.stdout.splitlines()[-1]
    assert re.fullmatch(r"prices: 1 entry waits for another attempt, from 20[-: \d]+Z on; .*again then", last)


def test_work_that_is_parked_gives_a_run_the_exit_code_3_until_a_person_resolves_it(shop: Path, cli: Cli):
    feed(shop, {"id": "never", "at": 11, "trouble": "rejected"})
    once = ("run", "prices", "--once")

    codes = [cli(*once).exit_code for _ in range(2)]
    told = cli.json(*once)
    assert codes == [Code.PERSON] * 2
    assert (told["code"], told["left"]) == (3, {"prices": {"parked": 1, "waiting": 0, "next": None}})
    assert "prices: 1 entry parked, needs a person; see `onefold list --parked" in cli(*once).stdout

    cli("resolve", "prices/never", "--happened", "-y")
    assert cli(*once).exit_code == Code.FINE


def test_a_source_that_cannot_be_read_fails_a_run_that_reads_once(shop: Path, cli: Cli):
    (shop / "feed.jsonl").unlink()

    result = cli("run", "prices:live", "--once")

    assert result.exit_code == Code.FAILED
    assert "No such file" in result.stderr


def test_what_a_killed_worker_left_is_taken_over_and_done_once(shop: Path, cli: Cli):
    cli.killed_after(lambda: until(lambda: begun(shop) == 2), "prices:waits_again")
    assert outside(shop) == {}
    (shop / "go").touch()

    cli.killed_after(lambda: until(lambda: len(outside(shop)) == len(RECORDS)), "prices:waits_again")

    assert outside(shop) == {one["id"]: 1 for one in RECORDS}


# ----- while it runs


def test_a_running_worker_follows_a_setting_that_is_put(
    shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHAT_TOKEN", "123:secret")
    with (shop / "onefold.toml").open("a") as file:
        file.write("follow = true\n")
    cli("run", "prices", "--once")
    (shop / "outside.txt").unlink()
    (shop / "subscribers.json").write_text('["ann"]')
    cli("settings", "put", "whales.subscribers", "subscribers.json")

    async def bob_subscribes_and_is_told() -> None:
        await until(lambda: len(outside(shop)) == 10)
        (shop / "subscribers.json").write_text('["ann", "bob"]')
        assert cli("settings", "put", "whales.subscribers", "subscribers.json", "-y").exit_code == Code.FINE
        for number in range(11, 100):
            feed(shop, {"id": f"r{number}", "at": number})
            await anyio.sleep(1)
            if any(name.endswith("/bob") for name in outside(shop)):
                return
        raise AssertionError("bob was not told")

    cli.killed_after(bob_subscribes_and_is_told, "whales")

    assert set(outside(shop).values()) == {1}


def test_a_running_worker_follows_a_cursor_that_is_moved(shop: Path, cli: Cli):
    async def the_cursor_is_moved() -> None:
        await until(lambda: len(outside(shop)) == 10)
        await until(lambda: [one["at"] for one in cli.lines("cursors")] == [9])
        # Behind the cursor nobody reads it. It must lie there first: the way from the start is gone but once.
        feed(shop, {"id": "late", "at": 3})
        assert cli("cursors", "set", "prices", "feed", "start", "-y").exit_code == Code.FINE
        await until(lambda: outside(shop)["late"] == 1)
        await until(lambda: [one["at"] for one in cli.lines("cursors")] == [9])

    cli.killed_after(the_cursor_is_moved, "prices:polls")

    assert set(outside(shop).values()) == {1}
    assert cli.lines("cursors")[0]["generation"] == 1


# ----- what is refused


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pricse"], Code.USAGE, "did you mean prices?"),
        (["prices:pipelin"], Code.USAGE, "has no pipelin: its pipelines are"),
        (["prices", "--log", "xml"], Code.USAGE, "(from --log)"),
        (["prices", "--grace", "soon"], Code.USAGE, "grace (from --grace) is 'soon'"),
        (["prices", "--listen", "here"], Code.USAGE, "(from --listen)"),
        (["prices", "prices.py:pipeline"], Code.USAGE, "two pipelines have one name: prices"),
        (["whales"], Code.USAGE, "$CHAT_TOKEN is not set"),
        (["prices", "--store", "nowhere://x"], Code.USAGE, "names no store"),
        (["prices", "--store", "sqlite:///no/x.db"], Code.UNREACHABLE, "doctor --store sqlite:///no/x.db"),
        (
            ["prices", "--store", "sqlite:///no/such/folder/x.db"],
            Code.UNREACHABLE,
            "the store cannot be used",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(
    shop: Path, cli: Cli, words: list[str], code: Code, said: str
):
    result = cli("run", *words)

    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert outside(shop) == {}


def test_a_port_in_use_is_refused_before_anything_runs(shop: Path, cli: Cli):
    taken = current().listener("127.0.0.1", 9100)

    result = cli("run", "prices", "--listen", "9100")
    taken.close()

    assert result.exit_code == Code.USAGE
    assert "already in use" in result.stderr
    assert outside(shop) == {}


def test_a_keep_that_is_too_short_is_told_with_where_it_was_written(shop: Path, cli: Cli):
    (shop / "late.py").write_text(
        "from prices import Reads, act, made, shown\n"
        "pipeline = made('late', Reads(lambda cursor: shown(), finite=True, lag='10d'), act)\n"
    )
    (shop / "onefold.toml").write_text('[pipelines.late]\nuse = "late:pipeline"\nkeep = "8d"\n')

    result = cli("run", "late")

    assert result.exit_code == Code.USAGE
    assert "lag of 864000 s" in result.stderr
    assert "onefold.toml, line 3" in result.stderr
