"""Messages as a process of its own: killed while it sends, and sending by programs that it starts.

Only a real process shows that nothing of it is left in the store that another node would wait for, and that
signals come in through a pipe. What else holds of messages is proved in tests/fast/apps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest

from onefold.worlds.mischief import Mischief
from onefold.worlds.smtp import SmtpWorld
from tests.fast.apps.messaging import by_mail, delivered, node, parked, run_until, write
from tests.waiting import until

ONEFOLD = [sys.executable, "-m", "onefold", "run", "messages"]
CONFIG = """
store = "{store}"
[apps.messages]
processor = "mailer"
signals = "signals.jsonl"
follow = "50ms"
lease = "1s"
mail = {{ server = "{server}", sender = "shop@example.org" }}
"""


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
        *(
            pytest.param(name, marks=[pytest.mark.slow, pytest.mark.store(name)])
            for name in ("postgresql", "dynamodb", "cassandra")
        ),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'onefold.db'}"
    url = str(request.getfixturevalue(f"{request.param}_url"))
    if request.param in ("dynamodb", "cassandra"):
        url += ("&" if "?" in url else "?") + "max_skew=1s"
    return url


def test_a_process_killed_while_it_sends_leaves_a_doubt_and_no_second_mail(store, tmp_path):
    signals = tmp_path / "signals.jsonl"
    write(signals, range(8))
    with SmtpWorld(mischief=Mischief(0, {"stall": 1.0}, 3600.0)) as world:
        (tmp_path / "onefold.toml").write_text(CONFIG.format(store=store, server=world.url))
        with (tmp_path / "log").open("ab") as log:
            first = subprocess.Popen(ONEFOLD, cwd=tmp_path, stdout=log, stderr=log)
        # Every answer is late, so that all eight were sent and none is settled when the kill comes.
        try:
            anyio.run(until, lambda: len(delivered(world)) == 8)
        finally:
            first.kill()
            first.wait()
        world.mischief.stop()
        write(signals, range(8, 10))
        second = node(by_mail(world, signals), store)
        run_until([second], lambda: len(delivered(world)) == 10 and len(parked(store)) == 8)

    assert delivered(world) == {f"s{number}": 1 for number in range(10)}
    assert parked(store) == {f"s{number}": "in-doubt" for number in range(8)}


def test_signals_on_standard_input_are_sent_by_a_command(tmp_path):
    (tmp_path / "send.py").write_text(
        "import json, sys\nsignal = json.load(sys.stdin)\n"
        "open('sent', 'a').write(signal['id'] + '\\n')\n"
        "sys.exit({'later': 75, 'never': 64, 'odd': 1}.get(signal['id'], 0))\n"
    )
    (tmp_path / "onefold.toml").write_text(
        'store = "sqlite:///onefold.db"\n[apps.messages]\nprocessor = "p"\nattempts = 1\n'
        f'command = [{json.dumps(sys.executable)}, "send.py"]\n'
    )
    lines = "".join(json.dumps({"id": name}) + "\n" for name in ("a", "later", "never", "odd", "a"))
    ran = [
        subprocess.run(ONEFOLD, cwd=tmp_path, input=lines, capture_output=True, text=True) for _ in range(2)
    ]

    # The second run leaves alone what the first one parked, and says that it still waits for a person.
    assert [one.returncode for one in ran] == [3, 3], ran[0].stderr
    assert Counter((tmp_path / "sent").read_text().split()) == {"a": 1, "later": 1, "never": 1, "odd": 1}
    assert parked(f"sqlite:///{tmp_path / 'onefold.db'}", "p") == {
        "later": "failed",
        "never": "failed",
        "odd": "in-doubt",
    }
