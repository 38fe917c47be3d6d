"""Messages: every signal is sent once per processor, counted from the journals of the far sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from onefold import Key, Ledger
from onefold.apps.messages import Settings, pipelines
from onefold.apps.messages.pipeline import MailSettings, WebhookSettings, filled
from onefold.core.errors import Misconfigured, Rejected
from onefold.core.record import Record
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.stores import connect
from onefold.worker import Worker
from onefold.worker.configuration import parsed, struct
from onefold.worker.file import File
from onefold.worker.operating import gaps
from onefold.worker.secret import Secret
from onefold.worker.settings import Live
from onefold.worlds.journal import Journal
from onefold.worlds.mischief import Mischief
from onefold.worlds.site import Request, Response, Site
from onefold.worlds.smtp import SmtpWorld
from tests.fast.apps.lives import run_until_killed
from tests.fast.apps.messaging import by_mail, delivered, dropped, node, parked, run_until, write
from tests.fast.cli.stage import Cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signals.jsonl"


@pytest.fixture
def own(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


# ----- the acceptance run


def test_two_nodes_with_one_processor_send_each_signal_once_and_hide_no_doubt(store, file):
    tricks = Mischief(5, {"error": 0.1, "cut-after": 0.1, "cut-before": 0.1, "stall": 0.1}, 0.05)
    with SmtpWorld(mischief=tricks) as world:

        def accounted(number: int) -> bool:
            return len(delivered(world) | dropped(world)) >= number

        said = by_mail(world, file)
        write(file, range(15))
        run_until([node(said, store), node(said, store)], lambda: accounted(15))
        write(file, range(10, 30))
        run_until([node(said, store), node(said, store)], lambda: accounted(30))

    doubts = parked(store)
    everything = {f"s{number}" for number in range(30)}
    assert set(delivered(world).values()) == {1}
    assert set(delivered(world)) | set(doubts) == everything
    assert set(doubts.values()) <= {"in-doubt"}
    assert not delivered(world).keys() & dropped(world).keys()
    assert len(doubts) == tricks.drawn["cut-after"] + tricks.drawn["cut-before"] > 0


def test_a_node_sends_nothing_that_waits_for_another_processor(own, file):
    write(file, [1])
    with SmtpWorld() as one, SmtpWorld() as other:
        one.faults.extend([("greeting", 421)] * 1000)
        soon = Terms(backoff=("1ms", "1ms"), attempts=10_000)
        refused = replace(pipelines(by_mail(one, file), Live("messages.")), terms=soon)
        run_until([Worker([refused], store=own, grace=10)], lambda: len(one.faults) < 1000)
        one.faults.clear()

        # A node that ends where the file ends looks for all that is due, and ends.
        alone = node(by_mail(other, file, processor="other", follow=""), own)
        assert anyio.run(alone.arun) == 0
        assert (delivered(one), delivered(other)) == ({}, {"s1": 1})

        run_until([node(by_mail(one, file), own)], lambda: bool(delivered(one)))
        assert (delivered(one), delivered(other)) == ({"s1": 1}, {"s1": 1})


def test_a_webhook_that_loses_its_answers_acts_once_on_each_signal(own, file):
    journal, known = Journal(), dict[str, Any]()

    def take(request: Request) -> Response:
        if known.setdefault(request.headers["Idempotency-Key"], request.body) == request.body:
            journal.note("asked", id=request.json()["id"], token=request.headers["Authorization"])
        return Response({"taken": len(known)})

    write(file, range(20))
    tricks = Mischief(1, {"cut-after": 0.2, "half": 0.1, "cut-before": 0.1, "busy": 0.1}, 0.05)
    with Site({("POST", "/hook"): take}, tricks) as site:
        hook = WebhookSettings(url=f"{site.url}/hook", token=Secret("hook-token"))
        said = Settings(processor="hooks", signals=File(str(file)), webhook=hook, follow="20ms")
        quick = [quickly(said, own) for _ in range(2)]
        run_until(quick, lambda: done(own, "hooks") == 20)

    asked = Counter(line["id"] for line in journal.of("asked"))
    assert len(known) == len(asked) == 20
    assert asked.total() > 20, "no answer was lost, so nothing was tried"
    assert {line["token"] for line in journal.of("asked")} == {"Bearer hook-token"}
    assert parked(own, "hooks") == {}


def quickly(said: Settings, store: str) -> Any:
    """Make a node that does not wait long between attempts."""
    from dataclasses import replace

    from onefold import Terms
    from onefold.worker import Worker

    terms = Terms(lease=3, backoff=(0.05, 0.2), attempts=50)
    return Worker([replace(pipelines(said, Live()), terms=terms)], store=store, grace=5)


def done(store: str, processor: str, scope: str = "messages") -> int:
    ledger = Ledger(store)
    try:
        return sum(key.label.startswith(f"{processor}/") for key, _ in ledger.entries(scope, "done"))
    finally:
        ledger.close()


def test_a_sending_that_takes_longer_than_its_lease_is_kept_alive_and_done_once(own, file):
    write(file, [1])
    with SmtpWorld(mischief=Mischief(0, {"stall": 1.0}, 2.5)) as world:
        said = by_mail(world, file, lease="1s")
        run_until([node(said, own), node(said, own)], lambda: done(own, "mailer") == 1)

    assert delivered(world) == {"s1": 1}
    assert parked(own) == {}


def test_another_processor_does_all_of_it_again(own, file):
    write(file, range(3))
    with SmtpWorld() as world:
        for processor in ("mailer", "archive", "mailer"):
            node(by_mail(world, file, processor=processor, follow=""), own).run()

    assert delivered(world) == dict.fromkeys(("s0", "s1", "s2"), 2)
    assert (done(own, "mailer"), done(own, "archive")) == (3, 3)


def test_another_file_is_read_from_its_beginning(own, file, tmp_path):
    other = tmp_path / "other.jsonl"
    write(file, range(5))
    write(other, [0, 7])
    with SmtpWorld() as world:
        node(by_mail(world, file, follow=""), own).run()
        node(by_mail(world, other, follow=""), own).run()

    assert delivered(world) == {f"s{number}": 1 for number in (0, 1, 2, 3, 4, 7)}


def test_signals_are_sent_once_though_their_file_is_rotated_while_nodes_run_and_while_they_stand_still(
    own, file
):
    with SmtpWorld() as world:
        said = by_mail(world, file)
        write(file, range(5))
        both = [node(said, own), node(said, own)]

        def rotated() -> bool:
            if len(delivered(world)) == 5 and not rotations:
                rotations.append(file.rename(f"{file}.2"))
                write(file, range(5, 10))
            return len(delivered(world)) == 10

        rotations: list[Path] = []
        run_until(both, rotated)
        write(file, range(10, 15))
        file.rename(f"{file}.1")
        write(file, range(15, 20))
        run_until([node(said, own)], lambda: len(delivered(world)) == 20)

    assert set(delivered(world).values()) == {1}
    opened = connect(own)
    assert run(gaps(), Ports(opened)) == []
    opened.close()


def test_signals_that_went_with_a_truncated_file_are_shown_as_a_gap(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "onefold.toml").write_text(
        'store = "sqlite:///onefold.db"\n[apps.messages]\nprocessor = "p"\nsignals = "signals.jsonl"\n'
        'function = "json:dumps"\n'
    )
    signals, cli = tmp_path / "signals.jsonl", Cli()
    write(signals, range(3))
    first = cli("run", "messages")
    signals.write_text("")
    write(signals, range(3, 9))
    second = cli("run", "messages")

    assert "3 done" in first.output
    assert "6 done" in second.output
    [gap] = cli.json("cursors")["gaps"]
    assert (gap["since"], gap["until"]) == (3, 4)
    assert "was truncated or replaced" in gap["reason"]


def test_a_signal_that_stands_twice_in_the_lines_is_sent_once_and_a_broken_line_is_set_apart(own, file):
    write(file, [1, 2])
    with file.open("a") as lines:
        lines.write('{"no": "id"}\nnot json\n')
    write(file, [2, 1, 3])
    with SmtpWorld() as world:
        run_until([node(by_mail(world, file), own)], lambda: len(delivered(world)) == 3)

    assert delivered(world) == {"s1": 1, "s2": 1, "s3": 1}
    ledger = Ledger(own)
    assert len(list(ledger.entries("messages.broken", "parked"))) == 2
    ledger.close()


def test_a_signal_without_what_its_mail_needs_is_parked_and_holds_nobody_up(own, file):
    file.write_text('{"id": "poor", "to": "ann@example.org"}\n')
    write(file, [1])
    with SmtpWorld() as world:
        node(by_mail(world, file, follow=""), own).run()

    assert delivered(world) == {"s1": 1}
    assert parked(own) == {"poor": "failed"}


# ----- a hard kill


def test_a_node_killed_while_it_sends_leaves_a_doubt_and_no_second_mail(own, file):
    write(file, range(8))
    with SmtpWorld(mischief=Mischief(0, {"stall": 1.0}, 3600.0)) as world:
        said = by_mail(world, file, lease="2s")
        # Every answer is late, so that all eight were sent and none is settled when the kill comes.
        run_until_killed(node(said, own), lambda: len(delivered(world)) == 8)
        world.mischief.stop()
        write(file, range(8, 10))
        [code] = run_until([node(said, own)], lambda: len(delivered(world)) == 10 and len(parked(own)) == 8)

    assert delivered(world) == {f"s{number}": 1 for number in range(10)}
    assert parked(own) == {f"s{number}": "in-doubt" for number in range(8)}
    assert code in (0, 3)


# ----- other ways to send, and to read


@pytest.mark.parametrize("colour", ["", "async "])
def test_a_function_and_a_source_of_the_users_own_are_used(colour, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from onefold import Record\nfrom onefold.sources.function import Function\n"
        "source = Function(lambda cursor: [Record(n, {'word': n}, 1) for n in 'abca'], finite=True)\n"
        f"{colour}def send(signal):\n"
        "    with open('sent', 'a') as sent:\n        sent.write(signal['word'])\n    return 'fine'\n"
    )
    (tmp_path / "onefold.toml").write_text(
        'store = "sqlite:///onefold.db"\n'
        '[apps.messages]\nprocessor = "p"\nsource = "mine:source"\nfunction = "mine:send"\n'
    )
    ran = Cli()("run", "messages")

    assert ran.exit_code == 0, ran.output
    assert sorted((tmp_path / "sent").read_text()) == ["a", "b", "c"]
    ledger = Ledger(f"sqlite:///{tmp_path / 'onefold.db'}")
    kept = ledger.look(Key("messages", "p", "a"))
    assert kept is not None
    assert kept.body == '"fine"'
    ledger.close()


# ----- settings and words


MAIL = {"server": "smtp://mail.example.org", "sender": "a@example.org"}


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({}, "[apps.messages] needs processor: add it to onefold.toml"),
        ({"processor": "", "command": ["x"]}, "processor is empty, name who processes these signals"),
        ({"processor": "p"}, "one way to send is needed, and none is given"),
        ({"processor": "p", "mail": MAIL, "command": ["x"]}, "and mail and command is given"),
        ({"processor": "p", "mail": {"server": "x"}}, "[apps.messages] needs mail.sender"),
        ({"processor": "p", "mail": {**MAIL, "password": "1234"}}, "write env:NAME or file:PATH"),
        ({"processor": "p", "mail": MAIL, "effect": "keyed"}, "a mail that is sent again is a second mail"),
        ({"processor": "p", "command": ["x"], "follow": "1s"}, "follow needs signals to be a file"),
        ({"processor": "p", "command": ["x"], "comand": 1}, "did you mean command?"),
        ({"processor": "p", "function": "no.such:thing"}, "function is 'no.such:thing' and cannot be loaded"),
        ({"processor": "p", "function": "json:__doc__"}, "cannot be called"),
        ({"processor": "p", "function": "ast:walk"}, "a generator: write a function that returns"),
        ({"processor": "p", "command": ["x"], "source": "json:dumps"}, "it has no read()"),
        ({"processor": "p", "command": ["x"], "timeout": "soon"}, "timeout is 'soon'"),
        ({"processor": "p", "webhook": {"url": "ftp://x"}}, "is no address of a web service"),
        ({"processor": "p", "mail": {**MAIL, "server": "http://x"}}, "the mail server is no URL of one"),
    ],
)
def test_a_wrong_setting_gets_an_error_that_names_it_and_what_to_do(section, says, tmp_path):
    found = parsed({"apps": {"messages": section}}, "", tmp_path / "onefold.toml")

    with pytest.raises(Misconfigured) as wrong:
        pipelines(struct(Settings, found.apps["messages"], tmp_path), Live())

    assert says in str(wrong.value)
    assert "1234" not in str(wrong.value)


def test_a_mail_server_may_be_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SMTP_URL", "smtp://shop:pass-word@mail.example.org")
    section = {"processor": "p", "mail": {"server": "env:SMTP_URL", "sender": "a@example.org"}}
    found = parsed({"apps": {"messages": section}}, "", tmp_path / "onefold.toml")
    settings = struct(Settings, found.apps["messages"], tmp_path)

    assert pipelines(settings, Live()).sink.effect == "one-shot"
    assert "pass-word" not in repr(settings)


@pytest.mark.parametrize(
    ("way", "effect"),
    [
        ({"mail": MailSettings(server="smtp://h", sender="a@b.c")}, "one-shot"),
        ({"webhook": WebhookSettings(url="https://h/x")}, "keyed"),
        ({"webhook": WebhookSettings(url="https://h/x"), "effect": "one-shot"}, "one-shot"),
        ({"webhook": WebhookSettings(url="https://h/x"), "effect": "idempotent"}, "idempotent"),
        ({"command": ("true",)}, "one-shot"),
        ({"command": ("true",), "effect": "idempotent"}, "idempotent"),
        ({"function": "json:dumps"}, "one-shot"),
        ({"function": "json:dumps", "effect": "keyed"}, "keyed"),
    ],
)
def test_twice_is_wrong_unless_the_way_to_send_or_the_user_says_otherwise(way, effect):
    assert pipelines(Settings(processor="p", **way), Live()).sink.effect == effect


def test_the_key_of_a_signal_is_its_processor_and_its_id():
    made = pipelines(Settings(processor="p", command=(File("true"),)), Live())

    assert made.key_of(Record("a/b", {"id": "a/b"}, 1, "signals")) == Key("messages", "p", "a/b")


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("Order {order}", "Order 7"),
        ("{a}{order}{a}", "x7x"),
        ("{buyer.name}", "Ann"),
        ("plain", "plain"),
        ("{ order } {{", "{ order } {{"),
    ],
)
def test_the_fields_of_a_signal_stand_where_a_text_names_them(template, told):
    assert filled(template, Record("r", {"order": 7, "a": "x", "buyer": {"name": "Ann"}}, 1)) == told


@pytest.mark.parametrize("template", ["{missing}", "{0}", "{order.__class__}", "{buyer.name}"])
def test_a_text_that_asks_for_what_a_signal_has_not_is_refused(template):
    with pytest.raises(Rejected, match="the signal r has no"):
        filled(template, Record("r", {"order": 7, "buyer": {"name": None}}, 1))
