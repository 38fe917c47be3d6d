"""However many entries are done, lists and counts read the index of open entries, not the table.

What the commands ask is counted in steps of SQLite's own machine, and explained by its planner; the same
counter is shown to run out when everything is walked over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from onefold import Key
from onefold.cli.codes import Code
from onefold.cli.doctor import LARGE
from tests.fast.cli.stage import AT, Cli, in_doubt, ledger

pytestmark = pytest.mark.store("sqlite")

DONE = 100_000
STEPS = 5_000
"""Steps of SQLite's machine that suffice; each entry that is walked over takes several."""

_FILL = """
INSERT INTO onefold_entries
    (id, scope, state, token, version, fence, effect, lease, written, attempt, label, source)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT unhex(printf('%064x', n)), 'charges', 'done', 't', n, n, 'keyed', 60, ?, 1, 'done', '' FROM numbers
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a hundred thousand entries done and three parked."""
    path = tmp_path_factory.mktemp("large") / "onefold.db"
    book = ledger(path)
    for number in range(3):
        in_doubt(book, Key("charges", number))
    book.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(_FILL, (DONE, AT.timestamp()))
    connection.close()
    with path.open("ab") as file:
        # A hole that SQLite does not read; the doctor checks every page of a smaller file.
        file.truncate(LARGE + 2**20)
    return path


class Meter:
    """What every connection opened meanwhile was asked, and in how many steps; too many are stopped."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.steps = 0
        self.asked: list[str] = []

    def watch(self, connection: apsw.Connection) -> None:
        connection.set_progress_handler(self.step, 1)
        connection.exec_trace = self.ask

    def step(self) -> bool:
        self.steps += 1
        return self.steps > self.limit

    def ask(self, cursor: apsw.Cursor, sql: str, bound: object) -> bool:
        self.asked.append(sql)
        return True


@contextmanager
def metered(limit: int = STEPS) -> Iterator[Meter]:
    meter = Meter(limit)
    apsw.connection_hooks.append(meter.watch)
    try:
        yield meter
    finally:
        apsw.connection_hooks.remove(meter.watch)


def plans(path: Path, asked: list[str]) -> list[str]:
    """Ask the planner how it reads the entries."""
    connection = apsw.Connection(str(path))
    reads = [sql for sql in asked if "FROM onefold_entries" in sql]
    assert reads
    bound = {1: "parked", 2: "", 3: -1.0, 4: b"", 5: float("inf"), 6: 500, 7: "charges"}
    found = []
    for sql in reads:
        values = [bound[at + 1] for at in range(7)][: max(_numbers(sql), default=0)]
        found += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    connection.close()
    return found


def _numbers(sql: str) -> list[int]:
    return [number for number in range(1, 8) if f"?{number}" in sql]


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["list", "--parked"], STEPS),
        (["list", "--parked", "--scope", "charges"], STEPS),
        (["list"], STEPS),
        (["status"], STEPS),
        (["doctor"], 4 * STEPS),  # which looks at the times of the last thousand
    ],
)
def test_open_entries_are_found_without_reading_what_is_done(
    cli: Cli, large: Path, words: list[str], limit: int
):
    with metered(limit) as meter:
        result = cli(*words, "--store", f"sqlite:///{large}")

    assert result.exit_code in (Code.FINE, Code.PERSON), result.output
    assert 0 < meter.steps <= limit


@pytest.mark.parametrize("options", [[], ["--scope", "charges"]])
def test_a_list_of_what_is_parked_reads_the_index_of_open_entries(cli: Cli, large: Path, options: list[str]):
    with metered() as meter:
        rows = cli.lines("list", "--parked", *options, "--store", f"sqlite:///{large}")

    assert {row["label"] for row in rows} == {"0", "1", "2"}
    found = plans(large, meter.asked)
    assert found
    assert all("USING INDEX onefold_open (state=?" in plan for plan in found), found


def test_the_meter_runs_out_when_everything_is_walked_over(cli: Cli, large: Path):
    with metered() as meter:
        result = cli("status", "--all", "--store", f"sqlite:///{large}")

    assert result.exit_code == Code.UNREACHABLE
    assert meter.steps > STEPS


def test_a_plan_without_the_index_would_be_seen(large: Path):
    assert not any("onefold_open" in plan for plan in plans(large, ["SELECT * FROM onefold_entries"]))
