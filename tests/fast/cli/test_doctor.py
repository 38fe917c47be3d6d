"""`doctor` finds what is wrong with a store, says what could be lost, and leaves nothing behind."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from onefold import Key, Ledger, Terms
from onefold.cli import findings
from onefold.cli.codes import Code
from onefold.cli.doctor import PATIENT, TERMS, file_system, round_trip
from onefold.cli.findings import Finding, Level, verdict
from onefold.core.claims import Bid, Ending, Hold
from onefold.core.operate import look
from onefold.core.protocol import claim, end
from onefold.drive import Ports, run
from onefold.runtime import current
from onefold.stores.sqlite import SqliteStore
from tests.fast.cli.stage import Cli, done, in_doubt, ledger, present

pytestmark = pytest.mark.store("sqlite")


def by_name(told: dict) -> dict[str, dict]:
    return {finding["name"]: finding for finding in told["findings"]}


def test_a_healthy_store_passes(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    result = cli("doctor")

    assert result.exit_code == Code.FINE, result.output
    assert result.stderr.endswith("All is well.\n")
    assert list(by_name(cli.json("doctor"))) == [
        "folder",
        "file system",
        "disk",
        "round trip",
        "schema",
        "journal",
        "synchronous",
        "library",
        "integrity",
        "clock",
        "parked",
    ]


def scopes() -> list[str]:
    connection = sqlite3.connect("onefold.db")
    found = connection.execute("SELECT DISTINCT scope FROM onefold_entries").fetchall()
    connection.close()
    return [scope for (scope,) in found]


def test_the_claim_of_a_doctor_leaves_nothing_behind(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    cli("doctor")

    assert scopes() == ["charges"]


def test_what_a_doctor_left_that_died_before_it_removed_its_claim_alarms_nobody(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))
    ports = Ports(SqliteStore("onefold.db"))
    [won] = run(claim([Bid(PATIENT, "another", TERMS, "idempotent")]), ports)
    assert won.entry is not None
    run(end([(Hold(PATIENT, "another", won.entry, won.since), Ending("returned", "null"), TERMS)]), ports)
    assert PATIENT.scope in scopes()
    current().wait(60)

    assert cli("doctor").exit_code == Code.FINE
    assert scopes() == ["charges"]


def test_two_doctors_at_once_do_not_alarm_anybody(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))
    store = SqliteStore("onefold.db")
    run(claim([Bid(PATIENT, "another", Terms(lease="1h"), "idempotent")]), Ports(store))

    told = cli.json("doctor")

    assert told["code"] == Code.FINE
    assert by_name(told)["round trip"]["level"] == "note"
    assert run(look([PATIENT]), Ports(store))[0].entry is not None


def test_a_round_trip_that_is_not_kept_is_unsafe():
    class Forgetful(SqliteStore):
        """A store that says yes and writes nothing."""

        def swap(self, changes):
            replies = super().swap(changes)
            apsw.Connection(str(self.path)).execute("DELETE FROM onefold_entries")
            return replies

    state = run(round_trip("t"), Ports(Forgetful("forgetful.db")))

    assert state == "lost"
    assert findings.trip(state, 0.0).level == "unsafe"


def test_what_is_parked_needs_a_person(cli: Cli, book: Ledger):
    in_doubt(book, Key("charges", 1))

    result = cli("doctor")

    assert result.exit_code == Code.PERSON
    assert "1 finding to attend to (exit 3)" in result.stderr
    assert "do    onefold list --parked" in result.stdout


def test_a_store_that_may_lose_its_last_writes_is_told_what_and_how_to_change_it(cli: Cli, book: Ledger):
    done(book, Key("charges", 1))

    told = cli.json("doctor", "sqlite:///onefold.db?synchronous=normal")

    finding = by_name(told)["synchronous"]
    assert told["code"] == Code.PERSON
    assert finding["level"] == "look"
    assert "power cut" in finding["lost"]
    assert "synchronous=normal" in finding["do"]


def test_entries_from_the_future_are_found(cli: Cli):
    done(ledger(at=present() + timedelta(days=3)), Key("charges", 1))

    told = cli.json("doctor")

    assert told["code"] == Code.PERSON
    assert "in the future" in by_name(told)["clock"]["text"]


def test_a_damaged_file_is_unsafe(cli: Cli, book: Ledger, here: Path):
    claims = book.claim_many([Key("charges", number) for number in range(2000)])
    book.settle_many([(won, "x" * 100) for won in claims])
    book.close()
    size = (here / "onefold.db").stat().st_size
    with (here / "onefold.db").open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096 * 8)

    told = cli.json("doctor")

    assert told["code"] in (Code.UNSAFE, Code.UNREACHABLE)
    assert by_name(told)["integrity"]["level"] == "unsafe"


def test_a_large_file_is_checked_only_if_asked_for(cli: Cli, book: Ledger, here: Path):
    done(book, Key("charges", 1))
    book.close()
    with (here / "onefold.db").open("ab") as file:
        file.truncate(65 * 2**20)  # a hole beyond the last page, which SQLite does not read

    finding = by_name(cli.json("doctor"))["integrity"]

    assert (finding["level"], finding["do"]) == ("note", "onefold doctor --deep")
    assert by_name(cli.json("doctor", "--deep"))["integrity"]["text"] == "quick check passed"


def test_the_doctor_does_not_turn_somebody_elses_file_to_wal(cli: Cli):
    connection = sqlite3.connect("app.db")
    book = Ledger.on(connection)
    book.call(Key("charges", 1), lambda: None)
    connection.commit()

    told = cli.json("doctor", "sqlite:///app.db")

    assert by_name(told)["journal"]["level"] == "note"
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_a_schema_that_was_run_by_hand_is_a_ledger(cli: Cli):
    connection = sqlite3.connect("by-hand.db")
    connection.executescript(cli("store", "sql", "sqlite:///by-hand.db").stdout)
    connection.close()

    assert by_name(cli.json("doctor", "sqlite:///by-hand.db"))["schema"]["level"] == "ok"
    assert cli.json("store", "sql", "sqlite:")["sql"] == cli("store", "sql", "sqlite:").stdout


def test_a_store_without_a_schema_says_so(cli: Cli):
    assert cli("store", "sql", "memory:").stderr == "This kind of store has no schema.\n"


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        (["ok", "note"], Code.FINE),
        (["ok", "look", "note"], Code.PERSON),
        (["look", "unsafe"], Code.UNSAFE),
        (["unsafe", "down", "look"], Code.UNREACHABLE),
        ([], Code.FINE),
    ],
)
def test_the_worst_finding_is_the_exit_code(levels: list[Level], code: Code):
    assert verdict([Finding("x", level, "") for level in levels]) == code


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (findings.trip("settled", 0.01), "ok"),
        (findings.schema(2, 2), "ok"),
        (findings.schema(1, 2), "look"),
        (findings.journal("wal"), "ok"),
        (findings.synchronous(2), "ok"),
        (findings.synchronous(3), "ok"),
        (findings.libraries("3.54.1", "3.51.3"), "ok"),
        (findings.libraries("3.54.1", "3.40.1"), "note"),
        (findings.libraries("3.51.2", "3.54.1"), "unsafe"),
        (findings.integrity(["ok"]), "ok"),
        (findings.integrity(["row 1 missing from index"]), "unsafe"),
        (findings.space(2**40), "ok"),
        (findings.space(2**20), "look"),
        (findings.file_system("ext4"), "ok"),
        (findings.file_system("nfs4"), "unsafe"),
        (findings.file_system(""), "ok"),
        (findings.folder("/x", True), "ok"),
        (findings.folder("/x", False), "look"),
        (findings.clock(None, 1e9), "ok"),
        (findings.clock(1e9 + 59, 1e9), "ok"),
        (findings.clock(1e9 + 61, 1e9), "look"),
        (findings.parked(0, 3), "ok"),
    ],
)
def test_each_fact_is_judged(finding: Finding, level: Level):
    assert finding.level == level
    # What is wrong says what can be lost, and how to change it.
    assert level == "ok" or (finding.lost and finding.do)


@pytest.mark.parametrize(
    ("version", "mended"),
    [
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.54.1", True),
        ("4.0.0", True),
    ],
)
def test_versions_with_the_wal_reset_bug_are_known(version: str, mended: bool):
    assert findings.mended(version) is mended


MOUNTS = """\
overlay / overlay rw 0 0
server:/export /srv/data nfs4 rw 0 0
/dev/sdb1 /srv/data/local ext4 rw 0 0
//nas/share /mnt/two\\040words cifs rw 0 0
tmpfs /srv/database tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x/onefold.db", "overlay"),
        ("/srv/data/onefold.db", "nfs4"),
        ("/srv/data/local/onefold.db", "ext4"),
        ("/srv/database/onefold.db", "tmpfs"),
        ("/mnt/two words/onefold.db", "cifs"),
    ],
)
def test_the_file_system_of_a_path_is_the_innermost_mount(path: str, kind: str):
    assert file_system(Path(path), MOUNTS) == kind


def test_a_machine_without_a_table_of_mounts_is_not_guessed_about():
    assert file_system(Path("/x"), "") == ""
