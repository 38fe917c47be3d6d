"""`onefold run` as a real process: it ends by itself, by signals or killed, and says how that went."""

from __future__ import annotations

import itertools
import json
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.cli.codes import Code
from tests.cli.shop import Working, begun, feed, open_shop, outside, run_once
from tests.cli.stage import PATIENCE, Cli, process

pytestmark = pytest.mark.store("sqlite")

RECORDS = [{"id": f"r{number}", "at": number} for number in range(10)]


@pytest.fixture
def shop(here: Path) -> Path:
    open_shop(here, *RECORDS)
    return here


@pytest.fixture
def working(shop: Path) -> Iterator[list[Working]]:
    started: list[Working] = []
    yield started
    for one in started:
        one.kill()


def start(working: list[Working], folder: Path, *words: str) -> Working:
    working.append(Working(folder, *words))
    return working[-1]


# ----- by itself


@pytest.mark.parametrize("name", ["prices", "prices:pipeline", "prices.py:pipeline", "prices.py"])
def test_a_finite_pipeline_runs_to_its_end_by_every_name(shop: Path, name: str):
    result = process("run", name)

    assert result.returncode == Code.FINE, result.stderr
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}
    assert result.stdout == "prices/feed: 10 records seen, 10 done\n"


def test_without_names_every_section_runs(shop: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAT_TOKEN", "123:secret")

    result = process("run", "--json")

    account = json.loads(result.stdout)
    assert result.returncode == account["code"] == Code.FINE
    assert account["pipelines"]["prices"]["feed"]["done"] == 10
    assert account["pipelines"]["told"]["feed"]["done"] == 10


def test_once_ends_an_endless_pipeline_when_it_has_read_everything_and_a_second_run_does_nothing(shop: Path):
    codes = [run_once("prices:live").returncode for _ in range(2)]
    feed(shop, {"id": "r10", "at": 10})
    codes.append(run_once("prices:live").returncode)

    assert codes == [Code.FINE] * 3
    assert set(outside(shop).values()) == {1}
    assert len(outside(shop)) == 11


def test_an_effect_in_doubt_needs_a_person_and_its_error_holds_no_secret(shop: Path, cli: Cli):
    feed(shop, {"id": "bad", "at": 11, "trouble": "doubt"})

    result = run_once("prices")
    told = cli.json("why", "prices", "bad")

    assert result.returncode == Code.PERSON
    assert told["error"] == {"type": "TimeoutError", "message": "no answer from https://***@bank.example"}
    assert "hunter2" not in result.stderr + json.dumps(told)


@pytest.mark.parametrize("name", ["prices", "prices:live"])
def test_work_that_waits_after_a_run_is_stated_in_the_last_line_with_its_time(shop: Path, name: str):
    feed(shop, {"id": "later", "at": 11, "trouble": "refused"})

    result = run_once(name)

    assert result.returncode == Code.FINE
    last = result.stdout.splitlines()[-1]
    assert re.fullmatch(r"prices: 1 entry waits for another attempt, from 20[-: \d]+Z on; .*again then", last)


def test_work_that_is_parked_gives_a_run_the_exit_code_3_until_a_person_resolves_it(shop: Path, cli: Cli):
    feed(shop, {"id": "never", "at": 11, "trouble": "rejected"})

    codes = [run_once("prices").returncode for _ in range(2)]
    told = json.loads(run_once("prices", "--json").stdout)
    assert codes == [Code.PERSON] * 2
    assert (told["code"], told["left"]) == (3, {"prices": {"parked": 1, "waiting": 0, "next": None}})
    assert "prices: 1 entry parked, needs a person; see `onefold list --parked" in run_once("prices").stdout

    cli("resolve", "prices/never", "--happened", "-y")
    assert run_once("prices").returncode == Code.FINE


def test_a_source_that_cannot_be_read_fails_a_run_that_reads_once(shop: Path):
    (shop / "feed.jsonl").unlink()

    result = run_once("prices:live")

    assert result.returncode == Code.FAILED
    assert "No such file" in result.stderr


# ----- by signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, Code.FINE), (signal.SIGINT, Code.INTERRUPTED)])
def test_a_signal_lets_running_effects_end_and_gives_the_rest_back(
    shop: Path, working: list[Working], number: signal.Signals, code: Code
):
    worker = start(working, shop, "prices:waits", "--grace", "40s")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(number)
    worker.until(lambda: "stopping within 40 s" in worker.log)
    (shop / "go").touch()
    ended, _ = worker.end()

    assert ended == code
    assert sum(outside(shop).values()) == 2

    assert run_once("prices:waits").returncode == Code.FINE
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}


def test_a_one_shot_effect_that_outlasts_the_grace_is_in_doubt_and_the_exit_code_says_so(
    shop: Path, working: list[Working], cli: Cli
):
    worker = start(working, shop, "prices:waits", "--grace", "100ms")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(signal.SIGTERM)
    ended, _ = worker.end()

    assert ended == Code.PERSON
    assert "still at work after 0 s of grace" in worker.log
    assert cli.json("status")["scopes"]["prices"]["why"] == {"in-doubt": 2}
    assert outside(shop) == {}


def test_a_second_signal_cuts_the_grace_short(shop: Path, working: list[Working]):
    worker = start(working, shop, "prices:waits_again", "--grace", "1h")
    worker.until(lambda: begun(shop) == 2)
    worker.signal(signal.SIGINT)
    worker.until(lambda: "stopping within 3600 s" in worker.log)
    worker.signal(signal.SIGINT)
    ended, _ = worker.end()

    assert ended == Code.INTERRUPTED
    assert outside(shop) == {}


def test_what_a_killed_worker_left_is_taken_over_and_done_once(shop: Path, working: list[Working]):
    killed = start(working, shop, "prices:waits_again")
    killed.until(lambda: begun(shop) == 2)
    killed.kill()
    (shop / "go").touch()

    heir = start(working, shop, "prices:waits_again")
    heir.until(lambda: len(outside(shop)) == len(RECORDS))
    heir.signal(signal.SIGTERM)

    assert heir.end()[0] == Code.FINE
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}


# ----- while it runs


def test_a_worker_prints_where_it_answers_and_answers_there(shop: Path, working: list[Working], cli: Cli):
    worker = start(working, shop, "prices:live", "--listen", "0", "--log", "json")
    worker.until(lambda: '"url"' in worker.log)
    [url] = re.findall(r'"url": "(http://127\.0\.0\.1:\d+)"', worker.log)

    def metrics() -> str:
        with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    worker.until(lambda: 'onefold_effects_done_total{pipeline="prices",source="feed"} 10.0' in metrics())
    worker.signal(signal.SIGTERM)

    assert worker.end()[0] == Code.FINE
    assert outside(shop) == {one["id"]: 1 for one in RECORDS}
    assert all(json.loads(line)["level"] for line in worker.log.splitlines())
    assert cli.lines("sources")[0]["counts"]["done"] == 10


def test_a_running_worker_follows_a_setting_that_is_put(
    shop: Path, working: list[Working], cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHAT_TOKEN", "123:secret")
    with (shop / "onefold.toml").open("a") as file:
        file.write("follow = true\n")
    run_once("prices")
    (shop / "outside.txt").unlink()
    (shop / "subscribers.json").write_text('["ann"]')
    cli("settings", "put", "whales.subscribers", "subscribers.json")
    worker = start(working, shop, "whales")
    worker.until(lambda: len(outside(shop)) == 10)

    (shop / "subscribers.json").write_text('["ann", "bob"]')
    cli("settings", "put", "whales.subscribers", "subscribers.json", "-y")
    numbers = itertools.count(11)

    def bob_was_told() -> bool:
        number = next(numbers)
        feed(shop, {"id": f"r{number}", "at": number})
        return any(name.endswith("/bob") for name in outside(shop))

    worker.until(bob_was_told)
    worker.signal(signal.SIGTERM)

    assert worker.end()[0] == Code.FINE
    assert set(outside(shop).values()) == {1}


def test_a_running_worker_follows_a_cursor_that_is_moved(shop: Path, working: list[Working], cli: Cli):
    worker = start(working, shop, "prices:polls")
    worker.until(lambda: len(outside(shop)) == 10)
    worker.until(lambda: [one["at"] for one in cli.lines("cursors")] == [9])

    # Behind the cursor nobody reads it. It must lie there first: the way from the start is gone but once.
    feed(shop, {"id": "late", "at": 3})
    assert cli("cursors", "set", "prices", "feed", "start", "-y").exit_code == Code.FINE
    worker.until(lambda: outside(shop)["late"] == 1)
    worker.until(lambda: [one["at"] for one in cli.lines("cursors")] == [9])
    worker.signal(signal.SIGTERM)

    assert worker.end()[0] == Code.FINE
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
def test_what_cannot_run_is_refused_before_anything_runs(shop: Path, words: list[str], code: Code, said: str):
    result = process("run", *words)

    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert outside(shop) == {}


def test_a_port_in_use_is_refused_before_anything_runs(shop: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = process("run", "prices", "--listen", str(taken.getsockname()[1]))

    assert result.returncode == Code.USAGE
    assert "Address already in use" in result.stderr
    assert outside(shop) == {}


def test_a_keep_that_is_too_short_is_told_with_where_it_was_written(shop: Path):
    (shop / "late.py").write_text(
        "from prices import Reads, act, made, shown\n"
        "pipeline = made('late', Reads(lambda cursor: shown(), finite=True, lag='10d'), act)\n"
    )
    (shop / "onefold.toml").write_text('[pipelines.late]\nuse = "late:pipeline"\nkeep = "8d"\n')

    result = process("run", "late")

    assert result.returncode == Code.USAGE
    assert "lag of 864000 s" in result.stderr
    assert "onefold.toml, line 3" in result.stderr
