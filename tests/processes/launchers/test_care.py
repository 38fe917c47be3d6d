"""The launchers take care: nothing is left behind, the missing are told, the failing show their log."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.launchers.fixtures import ours
from tests.launchers.server import Command, Given, Launched, Missing, NotReady, free_port, in_memory, running
from tests.waiting import wait_for


class Script:
    """A server that is a few lines of Python; its ping is the sentence that it writes when it is ready."""

    name = "script"
    origin = "this file"

    def __init__(self, text: str) -> None:
        self.text = text

    def locate(self) -> "Script":
        return self

    def prepare(self, folder: Path) -> None:
        self.folder = folder

    def command(self, folder: Path, port: int) -> Command:
        return Command([sys.executable, "-S", "-c", self.text])

    def url(self, port: int) -> str:
        return f"script://127.0.0.1:{port}"

    def ping(self, url: str) -> str:
        return (self.folder / "ready").read_text()

    def place(self, url: str) -> nullcontext[str]:
        return nullcontext(url)


READY = "import os, pathlib; pathlib.Path('ready').write_text(str(os.getpid()));"
WAIT = "import signal; signal.pause()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY} {WAIT}"


def test_a_server_that_ends_while_starting_shows_the_end_of_its_log():
    with (
        pytest.raises(NotReady, match=r"script ended with 3(.|\n)*line 29$"),
        running(Script("for n in range(30): print('line', n)\nraise SystemExit(3)")),
    ):
        pass


def test_an_answer_from_somebody_else_on_the_port_does_not_count():
    class Impostor(Script):
        def ping(self, url: str) -> str:
            wait_until_gone(int((self.folder / "ready").read_text()))
            return "I am somebody else"

    with pytest.raises(NotReady, match="script ended with 0"), running(Impostor(READY)):
        pass


def wait_until_gone(child: int) -> None:
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def test_a_restart_tries_again_until_the_dead_one_is_out_of_the_way():
    refusals = "p = pathlib.Path('tries'); p.open('a').write('x'); len(p.read_text()) in (2, 3) and exit(1);"
    script = Script(f"import pathlib; {refusals} {READY} {WAIT}")
    with running(script) as server:
        (script.folder / "ready").unlink()
        server.kill()
        server.restart()

        assert (script.folder / "tries").read_text() == "xxxx"


def test_a_port_in_use_is_not_offered():
    offered = {free_port() for _ in range(50)}

    assert len(offered) > 1
    assert min(offered) >= 20_000


PARENT = """
import sys
from tests.processes.launchers.test_care import READY, WAIT, Script
from tests.launchers.server import running

with running(Script(READY + WAIT)) as server:
    print(server.pid, server.folder, flush=True)
    sys.stdin.read()
"""


def test_a_killed_test_run_leaves_neither_servers_nor_folders():
    run = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin
    assert run.stdout
    pid, folder = run.stdout.readline().split()
    was_there = Path(folder).exists()
    os.kill(run.pid, signal.SIGKILL)
    # The watcher holds the pipe of the dead run open until it has done its work.
    run.stdout.read()
    run.wait()
    run.stdin.close()
    run.stdout.close()

    assert was_there
    assert not Path(folder).exists()
    assert state_of(int(pid)) in ("gone", "Z")


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


SUITE = """
import pytest
from contextlib import nullcontext
from tests.launchers.fixtures import lent
from tests.launchers.recipes import RECIPES
from tests.launchers.server import Missing

class Nowhere:
    name = "nowhere"
    def locate(self): raise Missing("it is sold out")

@pytest.fixture
def nowhere():
    RECIPES["nowhere"] = Nowhere()
    with lent("nowhere") as server: yield server

def test_it(nowhere): pass
"""


@pytest.mark.parametrize(("ci", "outcome"), [("", {"skipped": 1}), ("true", {"errors": 1})])
def test_a_missing_server_is_a_skip_with_the_reason_and_in_ci_a_failure(pytester, monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\naddopts = -p no:cacheprovider")
    pytester.makepyfile(SUITE)

    result = pytester.runpytest_subprocess("-rs")

    result.assert_outcomes(**outcome)
    assert "nowhere: it is sold out" in result.stdout.str()


def test_locating_what_is_nowhere_says_why():
    class Nowhere(Script):
        def locate(self) -> Script:
            raise Missing("it is sold out")

    with pytest.raises(Missing, match="sold out"), running(Nowhere("")):
        pass


def test_a_server_that_is_deaf_to_signals_is_killed_in_the_end():
    class SlowToStart(Script):
        def ping(self, url: str) -> str:
            wait_for((self.folder / "ready").exists)
            return super().ping(url)

    script = SlowToStart(DEAF)
    server = Launched(script, script, patience=1.0)  # for its end: its start may take longer
    server.start()
    server.close()

    assert server.pid is None


def test_a_server_that_never_answers_is_given_up():
    script = Script(WAIT)
    server = Launched(script, script, patience=0.5)
    with pytest.raises(NotReady, match="did not answer within"):
        server.start()
    server.close()

    assert server.pid is None


def test_a_test_that_would_end_or_change_a_server_is_skipped_where_it_is_not_ours():
    given = Given(Script(""), "script://127.0.0.1:1")

    with pytest.raises(pytest.skip.Exception, match="SCRIPT_URL names a server that is not ours"):
        ours(given)


def test_data_of_test_servers_lies_in_memory_only_where_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.launchers.server.MEMORY", tmp_path)
    monkeypatch.setattr("tests.launchers.server.ROOM", 0)
    with_room = in_memory()
    monkeypatch.setattr("tests.launchers.server.ROOM", 2**62)
    without_room = in_memory()
    monkeypatch.setattr("tests.launchers.server.MEMORY", tmp_path / "nothing")

    assert (with_room, without_room, in_memory()) == (tmp_path, None, None)
    with running(Script(READY + WAIT), tmp_path) as server:
        assert isinstance(server, Launched)
        assert server.folder.parent == tmp_path
