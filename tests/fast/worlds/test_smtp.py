"""The mail server of the stand-ins; `tests/processes/worlds` has the same tests with real sockets."""

from __future__ import annotations

import asyncio

import pytest

from onefold.worlds.mischief import Mischief
from onefold.worlds.smtp import Fault, SmtpWorld
from tests.fast.worlds.calling import Caller, Mode, calling, served
from tests.waiting import PATIENCE, until

OFFER = (b"EHLO me", b"MAIL FROM:<a@x>", b"RCPT TO:<b@y>", b"DATA")
MAIL = b"Message-ID: <1@x>\r\nSubject: hello\r\n\r\nText\r\n..dot\r\n."


async def send(caller: Caller) -> list[bytes]:
    """Send a mail, line by line as far as it goes well; return the codes, and b"" if the server hung up."""
    codes = [(await caller.line())[:3]]
    for said in (*OFFER, MAIL, b"QUIT"):
        if codes[-1][:1] not in (b"2", b"3"):
            break
        caller.say(said + b"\r\n")
        codes.append((await caller.line())[:3])
    return codes


async def sent(world: SmtpWorld, mode: Mode) -> list[bytes]:
    async with served(world, mode):
        return await sent_to(world)


async def sent_to(world: SmtpWorld) -> list[bytes]:
    async with calling(world.url) as caller:
        return await send(caller)


FINE = [b"220", b"250", b"250", b"250", b"354", b"250", b"221"]


def test_a_mail_is_delivered_into_the_journal(mode: Mode):
    world = SmtpWorld()

    assert asyncio.run(sent(world, mode)) == FINE
    [mail] = world.journal.of("mail")
    assert (mail["sender"], mail["to"], mail["subject"]) == ("a@x", ["b@y"], "hello")
    assert mail["text"] == "Text\r\n.dot\r\n"
    assert world.delivered == {"<1@x>": 1}
    assert world.connections == 1


@pytest.mark.parametrize(
    ("fault", "codes", "became"),
    [
        (("greeting", 421), [b"421"], []),
        (("mail", "cut-before"), [*FINE[:2], b""], []),
        (("rcpt", 550), [*FINE[:3], b"550"], []),
        (("data", 451), [*FINE[:4], b"451"], []),
        (("text", 451), [*FINE[:5], b"451"], []),
        (("text", "cut-before"), [*FINE[:5], b""], ["dropped"]),
        (("text", "cut-after"), [*FINE[:5], b""], ["mail"]),
    ],
)
def test_a_fault_happens_at_its_stage(mode: Mode, fault: Fault, codes: list[bytes], became: list[str]):
    world = SmtpWorld()
    world.faults.append(fault)

    assert asyncio.run(sent(world, mode)) == codes
    assert [line["kind"] for line in world.journal.lines()] == became


def test_a_stalled_answer_holds_up_no_other_and_ends_with_the_server(mode: Mode):
    async def main() -> None:
        world = SmtpWorld(mischief=Mischief(rates={"stall": 1.0}, stall=3600))
        async with served(world, mode):
            sending = asyncio.ensure_future(sent_to(world))
            await until(lambda: world.delivered.total() == 1)
            world.mischief.stop()
            assert await sent_to(world) == FINE
        assert await sending == [*FINE[:5], b""]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
