"""The mail sink: a mail arrives once or is in doubt, and nothing from outside can write its headers."""

from __future__ import annotations

from email.headerregistry import Address
from random import Random
from typing import Any

import pytest

from onefold.core.errors import Misconfigured, Refused, Rejected
from onefold.core.record import Record
from onefold.drive import Inline
from onefold.sinks.mail import InDoubt, Mail, composed
from onefold.stores.memory import MemoryStore
from onefold.worlds.smtp import Fault, SmtpWorld
from tests.fast.sinks.stage import NOBODY, PATIENT, entry, put_one, records, run_until, settled, worker
from tests.waiting import PATIENCE

RECORD = Record("r1", {"n": 1}, 1)
FAULTS: list[Fault] = [
    ("greeting", 421),
    ("greeting", "cut-before"),
    ("mail", 451),
    ("rcpt", 450),
    ("rcpt", "cut-before"),
    ("data", 451),
    ("data", "cut-before"),
    ("text", 451),
]
"""What goes wrong without a doubt, and passes."""


def mail(world: SmtpWorld | str, **more: Any) -> Mail:
    settings = {
        "sender": "shop@example.org",
        "subject": lambda r: f"Order {r.id}",
        "text": lambda r: f"Thank you.\n.\nYours, {r.id}",
        "to": lambda r: "ann@example.org",
        "timeout": PATIENCE,
        **more,
    }
    return Mail(world if isinstance(world, str) else world.url, **settings)


def test_a_mail_arrives_as_it_was_written_under_an_id_made_from_its_key():
    with SmtpWorld() as world:
        receipt = put_one(mail(world, html=lambda r: "<p>Thank you"), RECORD)
        again = put_one(mail(world), RECORD)

    first, second = world.journal.of("mail")
    assert receipt["id"] == again["id"] == first["id"] == second["id"]
    assert (first["to"], first["subject"]) == (["ann@example.org"], "Order r1")
    assert first["text"].splitlines() == ["Thank you.", ".", "Yours, r1"]


@pytest.mark.parametrize("seed", range(5))
def test_a_server_that_refuses_and_hangs_up_never_gets_a_mail_twice_and_no_doubt_is_hidden(seed):
    memory, random = MemoryStore(), Random(seed)
    with SmtpWorld() as world:
        lost: list[Fault] = [("text", "cut-after"), ("text", "cut-before")]
        world.faults.extend(random.sample([*FAULTS, *lost], 10))
        one = worker(records(20), mail(world), Inline(memory), at_once=1, terms=PATIENT)
        run_until(one, settled(memory, 20))

    told = [entry(memory, f"r{n}") for n in range(20)]
    assert max(world.delivered.values()) == 1
    assert sorted(one.why for one in told if one.state == "parked") == ["in-doubt"] * 2
    # One of the two doubts did arrive: only the world knows which.
    assert len(world.delivered) == sum(one.state == "done" for one in told) + 1
    assert not world.faults


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (("greeting", 554), Refused),
        (("greeting", "cut-before"), Refused),
        (("mail", 451), Refused),
        (("mail", 550), Rejected),
        (("rcpt", 450), Refused),
        (("rcpt", 550), Rejected),
        (("data", 554), Rejected),
        (("data", "cut-before"), Refused),
        (("text", 452), Refused),
        (("text", 554), Rejected),
        (("text", 199), InDoubt),
        (("text", "cut-before"), InDoubt),
        (("text", "cut-after"), InDoubt),
    ],
)
def test_what_a_server_says_is_sorted_by_what_it_lets_know(fault, kind):
    with SmtpWorld() as world:
        world.faults.append(fault)
        told = put_one(mail(world), RECORD)

    assert type(told) is kind
    assert len(world.delivered) == (fault == ("text", "cut-after"))


def test_a_server_that_is_not_there_was_certainly_not_asked():
    assert type(put_one(mail(f"smtp+plain://{NOBODY}"), RECORD)) is Refused


def test_a_server_without_encryption_is_refused_unless_it_is_asked_for():
    with SmtpWorld() as world:
        sink = Mail(
            world.url.replace("smtp+plain", "smtp").replace("//", "//ann:hunter2@"),
            sender="shop@example.org",
            subject=str,
            text=str,
            to=lambda r: "ann@example.org",
        )
        told = put_one(sink, RECORD)

    assert type(told) is Refused
    assert "hunter2" not in str(told)
    assert not world.delivered


@pytest.mark.parametrize(
    "more",
    [
        {"subject": lambda r: "Hello\r\nBcc: everybody@example.org"},
        {"subject": lambda r: "Hello\nX: y"},
        {"to": lambda r: "ann@example.org\r\nBcc: everybody@example.org"},
        {"to": lambda r: "ann@example.org, bob@example.org"},
        {"to": lambda r: "ann@example.org>\r\nRCPT TO:<bob@example.org"},
        {"to": lambda r: "Ann <ann@example.org>"},
        {"to": lambda r: "nobody"},
        {"to": lambda r: "ann@["},
        {"to": lambda r: "ann@[ "},
        {"to": lambda r: ""},
    ],
)
def test_what_would_write_headers_or_reach_others_is_rejected_before_anything_is_sent(more):
    with SmtpWorld() as world:
        told = put_one(mail(world, **more), RECORD)

        assert type(told) is Rejected
        assert world.connections == 0


def test_a_mail_goes_to_the_name_that_a_record_is_for():
    with SmtpWorld() as world:
        put_one(mail(world, to=None), RECORD, name="bob@example.org")

    [arrived] = world.journal.of("mail")
    assert arrived["to"] == ["bob@example.org"]


def test_a_long_mail_is_sent_though_no_entry_could_keep_it():
    with SmtpWorld() as world:
        memory = MemoryStore()
        sink = mail(world, text=lambda r: "word\n" * 50_000)
        run_until(worker(records(1), sink, Inline(memory)), settled(memory, 1))

    [arrived] = world.journal.of("mail")
    assert len(arrived["text"].splitlines()) == 50_000


@pytest.mark.parametrize("text", ["Ж" * 2000, "Grüße", "Grüße\n.\nЖ"])
def test_texts_of_all_scripts_arrive(text):
    message = composed(
        {"to": "ann@example.org", "subject": "Grüße 👋", "text": text, "html": f"<p>{text}"},
        Address("", "shop", "x.org"),
        "k",
    )

    assert message["Subject"] == "Grüße 👋"
    # A server without 8BITMIME may drop the highest bit of every byte.
    assert message.as_bytes().isascii()
    with SmtpWorld() as world:
        put_one(mail(world, text=lambda r: text), RECORD)
    [arrived] = world.journal.of("mail")
    assert arrived["text"].splitlines() == text.splitlines()


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("http://host", {}),
        ("smtp://", {}),
        ("smtp://ann@host", {}),
        ("smtp://ann@host", {"password": "a\0b"}),
        ("smtp://host", {"sender": "shop"}),
        ("smtp://host", {"sender": "a@b\r\nBcc: c@d"}),
    ],
)
def test_a_sink_that_cannot_work_is_refused_when_it_is_made(url, more):
    with pytest.raises(Misconfigured):
        Mail(url, **{"sender": "shop@example.org", "subject": str, "text": str, **more})
