"""What operators see and change of workers: cursors, sources, settings, apps, and pipelines in `status`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from onefold.cli.codes import Code
from onefold.cli.pipelines import notes, pipelines, rows
from onefold.cli.sources import lateness, within
from onefold.core.audit import acts
from onefold.core.documents import named, save
from onefold.core.endpoints import Endpoint, text_of
from onefold.drive import Ports, run
from onefold.runtime import current
from onefold.stores.sqlite import SqliteStore
from onefold.worker.liveness import status_of
from onefold.worker.progress import cursor_key
from tests.fast.cli.shop import feed, open_shop, outside
from tests.fast.cli.stage import Cli

pytestmark = pytest.mark.store("sqlite")


@pytest.fixture
def shop(here: Path, cli: Cli) -> Path:
    """A folder in which a worker read ten records, two of them troublesome."""
    records = [{"id": f"r{number}", "at": number} for number in range(8)]
    trouble = [{"id": "d8", "at": 8, "trouble": "doubt"}, {"id": "f9", "at": 9, "trouble": "refused"}]
    open_shop(here, *records, *trouble)
    assert cli("run", "prices", "--once").exit_code == Code.PERSON
    return here


def in_store(flow: Any) -> Any:
    store = SqliteStore("onefold.db")
    try:
        return run(flow, Ports(store))
    finally:
        store.close()


# ----- cursors


def test_cursors_tell_how_far_every_source_was_read(shop: Path, cli: Cli):
    [cursor] = cli.lines("cursors")

    assert (cursor["pipeline"], cursor["source"], cursor["at"]) == ("prices", "feed", 9)
    assert (cursor["status"], cursor["generation"], cursor["gaps"]) == ("ended", 0, [])
    assert "prices    feed     9" in cli("cursors").stdout


GAP = {"pipeline": "prices", "source": "feed", "since": 3, "until": 5, "reason": "it reaches back no further"}


def leave_a_gap() -> None:
    in_store(save(named("gaps", "prices", "feed", "5"), "t", lambda stands: GAP))


def test_a_gap_is_shown_beside_its_cursor(shop: Path, cli: Cli):
    leave_a_gap()

    assert cli.lines("cursors")[0]["gaps"] == [GAP]
    assert "gap, 3 to 5 could not be read: it reaches back no further" in cli("cursors").stderr
    assert cli.json("status")["pipelines"]["prices"]["gaps"] == 1
    assert "1 stretch could not be read" in cli("status").stderr


def test_a_gap_that_a_person_closes_is_counted_no_more_and_says_who_did_it_and_why(shop: Path, cli: Cli):
    leave_a_gap()
    words = ("cursors", "close", "prices", "feed", "5", "--reason", "replayed", "--by", "ann", "-y")

    closed, again = cli(*words, "--json"), cli(*words)

    assert json.loads(closed.stdout) == {**GAP, "closed_by": "ann", "closed_because": "replayed"}
    assert (closed.exit_code, again.exit_code) == (Code.FINE, Code.FAILED)
    assert "somebody closed it" in again.stderr
    assert cli.lines("cursors")[0]["gaps"] == []
    assert cli.json("status")["pipelines"]["prices"]["gaps"] == 0
    [act] = in_store(acts(named("gaps", "prices", "feed", "5")))
    assert (act["act"], act["by"], act["reason"]) == ("close", "ann", "replayed")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["prices", "feed", "6", "--reason", "x", "-y"], Code.FAILED, "its gaps end at 5"),
        (["prices", "fed", "5", "--reason", "x", "-y"], Code.FAILED, "no gap of prices/fed ends at 5"),
        (["prices", "feed", "5", "-y"], Code.USAGE, "--reason"),
        (["prices", "feed", "5", "--reason", "x"], Code.USAGE, "nobody can be asked"),
    ],
)
def test_a_gap_that_cannot_be_closed_stays(shop: Path, cli: Cli, words: list[str], code: Code, said: str):
    leave_a_gap()
    result = cli("cursors", "close", *words)

    assert result.exit_code == code
    assert said in result.stderr
    assert cli.lines("cursors")[0]["gaps"] == [GAP]


def test_a_cursor_that_is_moved_back_is_read_again_without_a_second_effect(shop: Path, cli: Cli):
    before = outside(shop)
    result = cli("cursors", "set", "prices", "feed", "2", "-y", "--json")

    assert result.exit_code == Code.FINE, result.stderr
    assert (json.loads(result.stdout)["at"], json.loads(result.stdout)["generation"]) == (2, 1)

    feed(shop, {"id": "late", "at": 3})
    cli("run", "prices", "--once")
    [source] = cli.lines("sources")

    assert outside(shop) == {**before, "late": 1}
    assert source["counts"].get("duplicate", 0) == 0
    assert source["counts"]["reread"] > 0
    assert cli.lines("cursors")[0]["at"] == 9


def test_moving_a_cursor_is_noted_with_who_and_from_where(shop: Path, cli: Cli):
    cli("cursors", "set", "prices", "feed", "start", "-y")

    told = cli("why", "onefold.cursors", "prices", "feed").stdout
    [act] = in_store(acts(cursor_key("prices", "feed")))
    assert "ann  set, was 9" in told
    assert (act["act"], act["by"], act["was"], act["to"]) == ("set", "ann", 9, None)


def test_a_cursor_goes_forward_only_if_told_to_skip_and_leaves_a_gap(shop: Path, cli: Cli):
    refused = cli("cursors", "set", "prices", "feed", "20", "-y")
    skipped = cli("cursors", "set", "prices", "feed", "20", "-y", "--skip")

    assert (refused.exit_code, skipped.exit_code) == (Code.UNSAFE, Code.FINE)
    assert "records in between would never be read" in refused.stderr
    [cursor] = cli.lines("cursors")
    assert cursor["at"] == 20
    assert [(gap["since"], gap["until"], gap["reason"]) for gap in cursor["gaps"]] == [
        (9, 20, "passed over by ann")
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["prices", "fed", "0", "-y"], Code.FAILED, "these are known: prices/feed"),
        (["prices", "feed", "soon", "-y"], Code.USAGE, "a time with a zone"),
        (["prices", "feed", "nan", "-y"], Code.USAGE, "write a number"),
        (["prices", "feed", "2026-01-31T12:00:00", "-y"], Code.USAGE, "a time with a zone"),
        (["prices", "feed", "0"], Code.USAGE, "nobody can be asked"),
    ],
)
def test_a_cursor_that_cannot_be_moved_stays(shop: Path, cli: Cli, words: list[str], code: Code, said: str):
    result = cli("cursors", "set", *words)

    assert result.exit_code == code
    assert said in result.stderr
    assert cli.lines("cursors")[0]["at"] == 9


def test_a_time_with_a_zone_is_a_place(shop: Path, cli: Cli):
    cli("cursors", "set", "prices", "feed", "1970-01-01T00:00:05Z", "-y")

    assert cli.lines("cursors")[0]["at"] == 5


AT = 1_767_225_600
TIMED_GAP = {**GAP, "since": AT - 90.5, "until": AT - 60}


@pytest.fixture
def timed(shop: Path) -> Path:
    """The shop, with a source that orders by time and a stretch that it could not show."""
    in_store(save(cursor_key("prices", "feed"), "t", lambda stands: {**stands, "at": AT, "timed": True}))
    in_store(save(named("gaps", "prices", "feed", str(AT - 60)), "t", lambda stands: TIMED_GAP))
    return shop


def test_the_cursor_of_a_source_that_orders_by_time_is_shown_as_a_time(timed: Path, cli: Cli):
    shown = cli("cursors")

    assert re.search(r"^prices +feed +2026-01-01T00:00:00Z ", shown.stdout, re.M)
    assert "gap, 2025-12-31T23:58:29.500000Z to 2025-12-31T23:59:00Z could not be read" in shown.stderr
    assert str(AT) not in shown.output
    [told] = cli.lines("cursors")
    assert (told["at"], told["time"]) == (AT, "2026-01-01T00:00:00.000Z")
    ahead = cli("cursors", "set", "prices", "feed", "2026-01-02T00:00:00Z", "-y")
    assert "stands at 2026-01-01T00:00:00Z, and 2026-01-02T00:00:00Z lies ahead" in ahead.stderr


@pytest.mark.parametrize("until", ["2025-12-31T23:59:00Z", str(AT - 60)])
def test_a_gap_is_closed_by_the_time_that_is_shown_or_by_its_number(timed: Path, cli: Cli, until: str):
    closed = cli("cursors", "close", "prices", "feed", until, "--reason", "replayed", "-y")

    assert closed.exit_code == Code.FINE, closed.stderr
    assert cli.lines("cursors")[0]["gaps"] == []


def test_a_worker_writes_whether_a_cursor_is_a_time(here: Path, cli: Cli):
    open_shop(here, {"id": "r1", "at": AT})
    with (here / "prices.py").open("a") as file:
        file.write('timed = made("prices", Reads(lambda cursor: shown(), finite=True, timed=True), act)\n')
    cli("run", "prices:timed", "--once")

    assert re.search(r"^prices +feed +2026-01-01T00:00:00Z ", cli("cursors").stdout, re.M)


# ----- sources


def test_sources_tell_what_was_seen_over_all_runs(shop: Path, cli: Cli):
    cli("run", "prices", "--once")
    [source] = cli.lines("sources")

    assert (source["pipeline"], source["source"], source["status"]) == ("prices", "feed", "ended")
    assert source["counts"]["seen"] >= 11
    assert (source["counts"]["done"], source["counts"]["in-doubt"]) == (8, 1)
    assert len(source["workers"]) == 2
    assert cli("sources", "--pipeline", "other").stdout == ""


def test_sources_tell_the_health_of_endpoints_without_their_secrets(shop: Path, cli: Cli):
    good = Endpoint("wss://ann:hunter2@a.example/v2", 1, health="healthy")
    bad = Endpoint("wss://b.example", 2, health="unhealthy", failures=3, failed=1.0, reason="wrong chain")
    off = Endpoint("wss://c.example", 3, enabled=False)
    in_store(save(named("endpoints", "node"), "t", lambda stands: text_of("node", [good, bad, off])))

    [pool] = [one for one in cli.lines("sources") if "pool" in one]
    shown = cli("sources").stdout

    assert [(one["health"], one["enabled"]) for one in pool["endpoints"]] == [
        ("healthy", True), ("unhealthy", True), ("unknown", False),
    ]  # fmt: skip
    assert pool["endpoints"][1]["failed"] == "1970-01-01T00:00:01.000Z"
    assert re.search(r"^node +\S*b\.example\S* +2 +unhealthy +.*wrong chain$", shown, re.M)
    assert re.search(r"^node +\S*c\.example\S* +3 +disabled +-$", shown, re.M)
    assert "hunter2" not in shown + json.dumps(pool)
    assert not any("pool" in one for one in cli.lines("sources", "--pipeline", "prices"))


def worker(at: float, status: str = "running", **more: Any) -> dict[str, Any]:
    return {"at": at, "status": status, **more}


@pytest.mark.parametrize(
    ("workers", "status"),
    [
        ({"a": worker(99)}, "running"),
        ({"a": worker(99), "b": worker(98)}, "running x2"),
        ({"a": worker(99), "b": worker(98, "failing")}, "failing"),
        ({"a": worker(99, "ended")}, "ended"),
        ({"a": worker(10)}, "dead"),
        ({"a": worker(10, "ended")}, "ended"),
        ({}, "ended"),
    ],
)
def test_the_status_of_a_source_is_what_its_workers_said_last(workers: dict[str, Any], status: str):
    assert status_of({"workers": workers}, 100.0) == status


def test_lateness_is_a_distribution():
    classes = lateness({"late:0.1": 60, "late:5": 30, "late:inf": 10, "seen": 3})

    assert classes == {0.1: 60, 5.0: 30, float("inf"): 10}
    assert [within(classes, share) for share in (0.5, 0.9, 0.95)] == [0.1, 5.0, float("inf")]
    assert within({}, 0.5) is None


# ----- dead workers


LOOKS = ("status", "sources", "cursors", "doctor")


@pytest.fixture
def killed(here: Path, cli: Cli) -> Path:
    """A folder whose only worker read everything, reported it, and was killed an hour ago."""
    open_shop(here)
    cli.killed_after(lambda: anyio.sleep(10), "prices:polls")
    assert [one["at"] for one in cli.lines("cursors")] == [2]
    assert [one["counts"]["done"] for one in cli.lines("sources")] == [2]
    assert [cli(look).exit_code for look in LOOKS] == [Code.FINE] * 4
    assert cli.json("status")["pipelines"]["prices"]["sources"] == ["running"]
    current().wait(3600)
    return here


def test_a_source_whose_every_worker_is_dead_needs_a_person_in_every_look(killed: Path, cli: Cli):
    told = cli.json("status")["pipelines"]["prices"]

    assert [cli(look).exit_code for look in LOOKS] == [Code.PERSON] * 4
    assert [cli("--json", look).exit_code for look in LOOKS] == [Code.PERSON] * 4
    assert told["sources"] == ["dead"]
    assert told["lag"] >= 3600
    assert "1 source failing or dead" in cli("status").stderr
    assert re.search(r"^prices +dead +1 h", cli("status").stdout, re.M)
    assert re.search(r"is dead: it reported last 1 h.* ago", cli("sources").stderr)
    assert [one["status"] for one in cli.lines("sources")[0]["workers"].values()] == ["dead"]
    assert cli.lines("cursors")[0]["status"] == "dead"
    assert cli.lines("cursors")[0]["lag"] >= 3600
    assert re.search(r"^look +sources +1 of 1 source failing", cli("doctor").stdout, re.M)


def test_a_dead_worker_disappears_when_a_later_run_has_read_its_source(killed: Path, cli: Cli):
    assert cli("run", "prices:polls", "--once").exit_code == Code.FINE

    [source] = cli.lines("sources")
    assert [one["status"] for one in source["workers"].values()] == ["ended"]
    assert [cli(look).exit_code for look in LOOKS] == [Code.FINE] * 4


def test_a_source_that_was_never_read_is_not_said_to_be_up_to_date(here: Path, cli: Cli):
    open_shop(here)
    (here / "feed.jsonl").unlink()
    assert cli("run", "prices:polls", "--once").exit_code == Code.FAILED

    assert cli.json("status")["pipelines"]["prices"]["lag"] is None
    assert re.search(r"^prices +failed +- ", cli("status").stdout, re.M)
    assert re.search(r"^prices +feed +start +- +failed", cli("cursors").stdout, re.M)
    assert [cli(look).exit_code for look in LOOKS] == [Code.PERSON] * 4


def test_counts_that_workers_reported_are_labelled_as_such(shop: Path, cli: Cli):
    label = "Counts as reported by workers; what a killed worker had not reported yet is missing:"

    assert label in cli("status").stdout
    assert label in cli("sources").stdout
    assert cli.json("status")["pipelines"]["prices"]["counted_by"] == "workers"
    assert cli.lines("sources")[0]["counted_by"] == "workers"
    assert cli.json("status", "--all")["scopes"]["prices"]["done"] == 8


def test_a_stretch_that_could_not_be_read_needs_a_person(here: Path, cli: Cli):
    open_shop(here)
    cli("run", "prices", "--once")
    leave_a_gap()

    assert [cli(look).exit_code for look in ("status", "cursors")] == [Code.PERSON] * 2


# ----- pipelines in status


def test_status_tells_how_pipelines_do(shop: Path, cli: Cli):
    told = cli.json("status")["pipelines"]["prices"]

    assert (told["sources"], told["gaps"], told["counts"]["done"]) == (["ended"], 0, 8)
    assert "pipeline  sources  behind  seen  done  twice  gaps" in cli("status").stdout


def test_status_that_watches_draws_pipelines_on_a_terminal(shop: Path, cli: Cli):
    watched = cli.interrupted_after(lambda: anyio.sleep(1), "status", "--watch", terminal=True)

    assert watched.exit_code == Code.INTERRUPTED
    assert "prices    ended" in watched.stdout
    assert "Done entries are not counted" in watched.stdout


def test_a_pipeline_is_as_far_behind_as_its_slowest_source_and_its_best_worker():
    sources = [
        {"pipeline": "p", "source": "a", "workers": {"x": worker(99, lag=5.0), "y": worker(99, lag=90.0)}},
        {"pipeline": "p", "source": "b", "workers": {"x": worker(10, lag=7.0)}, "totals": {"seen": 3}},
    ]
    [line] = pipelines(sources, [], 100.0)

    assert (line.lag, line.states, line.totals) == (97.0, ("running x2", "dead"), {"seen": 3})
    assert rows([line])[0][:3] == ("p", "running x2, dead", "1 m 37 s")
    assert notes([line]) == ["1 source failing or dead; see `onefold sources`."]


def test_what_belongs_to_onefold_itself_is_in_no_list_of_effects(shop: Path, cli: Cli):
    assert {one["scope"] for one in cli.lines("list")} == {"prices"}
    assert set(cli.json("status")["scopes"]) == {"prices"}


# ----- why


def test_why_tells_the_record_that_is_kept_and_what_went_wrong(shop: Path, cli: Cli):
    told = cli.json("why", "prices", "f9")
    text = cli("why", "prices", "f9").stdout

    assert told["record"]["id"] == "f9"
    assert told["error"] == {"type": "Refused", "message": "the market is closed"}
    [listed] = [row for row in cli.lines("list", "--free") if row["label"] == "f9"]
    assert (listed["record"], listed["error"]) == (told["record"], told["error"])
    assert "record      f9" in text
    assert "last error  Refused: the market is closed" in text


def test_what_a_person_resolved_still_tells_its_record_and_its_error(shop: Path, cli: Cli):
    before = cli.json("why", "prices", "d8")
    cli("resolve", "prices/d8", "--happened", "--receipt", '"x"', "--reason", "the bank shows it", "-y")
    told, text = cli.json("why", "prices", "d8"), cli("why", "prices", "d8").stdout

    assert told["entry"]["state"] == "done"
    assert (told["record"], told["error"]) == (before["record"], before["error"])
    assert before["error"]["type"] == "TimeoutError"
    assert re.search(r"^  record +d8$", text, re.M)
    assert re.search(r"^  last error +TimeoutError: no answer", text, re.M)
    assert 'receipt     "x"' in text
    assert "ann  resolve: it happened, was in-doubt, because the bank shows it" in text


# ----- settings


def test_a_setting_is_put_and_read_back_with_who_put_it(shop: Path, cli: Cli):
    put = cli("settings", "put", "whales.subscribers", "subscribers.json")
    told = cli.json("settings", "get", "whales.subscribers")

    assert put.exit_code == Code.FINE, put.stderr
    assert put.stdout == "whales.subscribers is number 1 now, put by ann\n"
    assert (told["value"], told["number"], told["by"]) == (["ann", "bob"], 1, "ann")
    assert json.loads(cli("settings", "get", "whales.subscribers").stdout) == ["ann", "bob"]
    assert [one["name"] for one in cli.lines("settings", "get")] == ["whales.subscribers"]


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (["whales.subscribers", "x.json"], "[1]", "does not fit: Expected str, got int"),
        (["whales.subscriber", "x.json"], "[]", "did you mean whales.subscribers?"),
        (["whale.subscribers", "x.json"], "[]", "did you mean whales?"),
        (["whales.subscribers", "x.json"], "[", "x.json cannot be read"),
        (["whales.subscribers", "gone.json"], "[]", "gone.json cannot be read"),
        (["endpoints.nodes", "x.json"], '["ftp://a.example"]', "has a scheme that is not allowed"),
        (["endpoints.nodes", "x.json"], '["wss://a:hunter2@a.example"]', "carries a secret: write env:NAME"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(shop: Path, cli: Cli, words: list[str], text: str, said: str):
    (shop / "x.json").write_text(text)

    result = cli("settings", "put", *words)

    assert result.exit_code == Code.USAGE
    assert said in result.stderr
    assert cli("settings", "get", "whales.subscribers").exit_code == Code.FAILED


def test_a_setting_is_replaced_only_with_consent_and_only_the_one_that_was_seen(shop: Path, cli: Cli):
    put = ("settings", "put", "whales.subscribers", "subscribers.json")
    cli(*put)

    assert cli(*put).exit_code == Code.USAGE
    assert "nobody can be asked" in cli(*put).stderr
    assert cli(*put, "-y", "--over", "7").exit_code == Code.FAILED
    assert cli(*put, "-y", "--over", "1").exit_code == Code.FINE
    assert cli.json("settings", "get", "whales.subscribers")["number"] == 2


def test_a_setting_that_no_app_declares_is_stored_and_that_is_said(shop: Path, cli: Cli):
    (shop / "x.toml").write_text("limit = 3\n")

    result = cli("settings", "put", "myown", "x.toml")

    assert "No app declares myown" in result.stderr
    assert cli.json("settings", "get", "myown")["value"] == {"limit": 3}


def test_a_setting_may_come_from_standard_input(shop: Path, cli: Cli):
    done = cli("settings", "put", "whales.subscribers", "--by", "ann", typed='["carol"]')

    assert done.exit_code == Code.FINE, done.stderr
    assert json.loads(cli("settings", "get", "whales.subscribers").stdout) == ["carol"]


# ----- apps


def test_apps_tell_their_settings_and_where_each_comes_from_but_no_secret(
    shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHAT_TOKEN", "123:very-secret")
    [told] = [one for one in cli.lines("apps") if "whales" in json.dumps(one)]
    text = cli("apps").stdout

    token, minimum, _ = told["settings"]
    assert (told["configured"], told["module"], told["summary"]) == (
        True,
        "teller",
        "Tells subscribers about prices.",
    )
    assert (token["value"], token["type"], token["required"]) == ("env:CHAT_TOKEN", "Secret", True)
    assert token["origin"].endswith("onefold.toml, line 8")
    assert (minimum["value"], minimum["origin"]) == (10_000.0, "the default")
    assert told["live"] == {"subscribers": "list[str]"}
    assert "very-secret" not in text + json.dumps(told)


def test_a_section_whose_app_cannot_be_loaded_is_said_and_fails(shop: Path, cli: Cli):
    (shop / "onefold.toml").write_text('[apps.whales]\nuse = "gone"\n')

    result = cli("apps")

    assert result.exit_code == Code.FAILED
    assert "there is no module gone" in result.stdout


def test_a_secret_that_was_written_in_the_clear_is_not_shown(shop: Path, cli: Cli):
    (shop / "onefold.toml").write_text('[apps.whales]\nuse = "teller"\nchat_token = "123:bare"\n')

    shown = cli("apps").stdout + cli("apps", "--json").stdout + cli("run", "whales").stderr

    assert "bare" not in shown
    assert "written in the clear" in shown
