"""The conversation with a mail server: TLS, logins, hostile replies, timeouts and cancellation.

The servers here are scripts on the test's own event loop. Most tests send a mail and look at how its end is
judged, because that is what a strange reply must not get wrong.
"""

from __future__ import annotations

import asyncio
import copy
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import pytest

from onefold.core.errors import Refused, Rejected
from onefold.core.key import Key
from onefold.core.record import Record
from onefold.sinks.mail import InDoubt, Mail
from onefold.sinks.smtp import LINE, LINES, Broken, Connection, Server, connect, stuffed
from tests.fast.sinks.stage import Won, put_one
from tests.fast.testing.serving import certified, trusting
from tests.fast.virtual import TestLoop
from tests.servers.stores.tls import AUTHORITY

T = TypeVar("T")

RECORD = Record("r1", {}, 1)
STEP = 30.0
"""Seconds for each step."""

FINE = {
    "hello": b"220 ready",
    "HELO": b"250 hello",
    "STARTTLS": b"220 go",
    "AUTH": b"235 in",
    "MAIL": b"250 ok",
    "RCPT": b"250 ok",
    "DATA": b"354 go",
    "text": b"250 taken",
}
SECRETS = ("hunter2", b64encode(b"hunter2").decode(), b64encode(b"\0ann\0hunter2").decode())

SILENT = b"(silent)"
"""Instead of an answer: say nothing until the client leaves."""
# At the end of an answer, instead of a line end: "(cut)" hangs up, "(hold)" waits until the client does.


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the authority of the tests' certificates."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))


@pytest.fixture(autouse=True)
def _no_threads(loop: TestLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr(loop, "run_in_executor", refuse)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run something, and check that it leaves no connection open."""

    async def life() -> T:
        result = await main
        await asyncio.sleep(1)  # until the other side knows
        network = asyncio.get_running_loop().network  # type: ignore[attr-defined]
        assert network.connections == 0
        return result

    return asyncio.run(life())


class Scripted:
    """A mail server that answers each command as its script says, in bytes without the last line end.

    A list is said one by one, its last for ever. `offers` are the lines of EHLO before TLS, `within` those
    after it. `late` is the time in seconds that each answer takes.
    """

    def __init__(
        self,
        script: Mapping[str, bytes | list[bytes]] | None = None,
        *,
        offers: Sequence[str] = (),
        within: Sequence[str] = (),
        certificate: str = "local",
        at_once: bool = False,
        late: float = 0,
    ) -> None:
        self.script = copy.deepcopy({**FINE, **(script or {})})
        self.offers, self.within = offers, within
        self.at_once, self.late = at_once, late
        self.context = certified(certificate)
        self.heard: list[tuple[bool, str]] = []
        self.texts: list[bytes] = []
        self.is_waiting, self.is_left = asyncio.Event(), asyncio.Event()
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Scripted]:
        listener = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=2**24)
        self.port = listener.sockets[0].getsockname()[1]
        async with listener:
            yield self

    @property
    def verbs(self) -> list[str]:
        return [line.split(" ")[0] for _, line in self.heard]

    def shows(self, *, encrypted: bool) -> str:
        return "\n".join(line for secure, line in self.heard if secure == encrypted)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                if self.at_once and self.script["hello"] is not SILENT:
                    await writer.start_tls(self.context)
                await self._talk(reader, writer)
        finally:
            self.is_left.set()
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secure, said = self.at_once, await self._say(writer, reader, "hello")
        while line := (await reader.readline()).decode().removesuffix("\r\n"):
            self.heard.append((secure, line))
            verb = "answer" if said.startswith(b"334") else line.split(" ")[0]
            said = await self._say(writer, reader, verb, self.within if secure else self.offers)
            if verb == "STARTTLS" and said.startswith(b"220"):
                await writer.start_tls(self.context)
                secure = True
            if verb == "DATA" and said.startswith(b"354"):
                self.texts.append(await reader.readuntil(b"\r\n.\r\n"))
                said = await self._say(writer, reader, "text")

    async def _say(
        self,
        writer: asyncio.StreamWriter,
        reader: asyncio.StreamReader,
        verb: str,
        offers: Sequence[str] = (),
    ) -> bytes:
        answer = self._answer(verb, offers)
        await asyncio.sleep(self.late)
        if answer is SILENT:
            self.is_waiting.set()
            await reader.read()
            raise ConnectionResetError("the client left")
        begun, mark, end = answer.rpartition(b"(")
        writer.write(begun if mark else end + b"\r\n")
        await writer.drain()
        if end == b"hold)":
            await reader.read()
        if mark:
            raise ConnectionResetError("cut by the script")
        return answer

    def _answer(self, verb: str, offers: Sequence[str]) -> bytes:
        if verb == "EHLO" and "EHLO" not in self.script:
            lines = ["server", *offers]
            return "\r\n".join(f"250{'-' if line is not lines[-1] else ' '}{line}" for line in lines).encode()
        told = self.script.get(verb, b"502 what?")
        if isinstance(told, bytes):
            return told
        return told.pop(0) if len(told) > 1 else told[0]


def sink(server: Scripted, scheme: str, login: str = "", host: str = "127.0.0.1", **more: Any) -> Mail:
    return Mail(
        f"{scheme}://{login}{host}:{server.port}",
        **{
            "sender": "shop@example.org",
            "subject": str,
            "text": lambda r: "Hello",
            "to": lambda r: "ann@example.org",
            "timeout": STEP,
            **more,
        },
    )


def sent(server: Scripted, scheme: str = "smtp+plain", login: str = "", **more: Any) -> Any:
    """Send one mail to a server, and return the answer of the sink."""
    return run(mailed(server, scheme, login, **more))


async def mailed(server: Scripted, scheme: str, login: str = "", **more: Any) -> Any:
    async with server.listening():
        [answer] = await sink(server, scheme, login, **more).put([(Won(Key("stage", RECORD.id)), RECORD)])
        return answer


# ----- encryption


def test_tls_from_the_first_byte_carries_everything():
    server = Scripted(at_once=True, within=["AUTH PLAIN"])

    assert sent(server, "smtps", "ann:hunter2@")["said"] == "taken"
    assert server.verbs == ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"]
    assert len(server.texts) == 1


def test_starttls_comes_before_everything_that_matters():
    server = Scripted(offers=["STARTTLS", "AUTH PLAIN"], within=["AUTH PLAIN"])

    assert sent(server, "smtp", "ann:hunter2@", host="localhost")["said"] == "taken"
    assert server.shows(encrypted=False).startswith("EHLO ")
    assert server.shows(encrypted=False).endswith("\nSTARTTLS")
    assert [line.split(" ")[0] for line in server.shows(encrypted=True).split("\n")] == [
        "EHLO",
        "AUTH",
        "MAIL",
        "RCPT",
        "DATA",
    ]


@pytest.mark.parametrize(
    ("script", "offers"),
    [
        ({}, ["AUTH PLAIN"]),
        ({}, ["XSTARTTLS", "AUTH PLAIN"]),
        ({}, ["STARTTLS\0", "AUTH PLAIN"]),
        ({"EHLO": b"502 what?"}, []),
        ({"STARTTLS": b"454 not now"}, ["STARTTLS", "AUTH PLAIN"]),
        ({"STARTTLS": b"502 what?"}, ["STARTTLS", "AUTH PLAIN"]),
        ({"STARTTLS": b"250 ok"}, ["STARTTLS", "AUTH PLAIN"]),
    ],
)
def test_a_server_that_does_not_begin_tls_gets_neither_a_password_nor_a_mail(script, offers):
    server = Scripted(script, offers=offers)
    told = sent(server, "smtp", "ann:hunter2@")

    assert type(told) is Refused
    assert not {"AUTH", "MAIL"} & set(server.verbs)


@pytest.mark.parametrize("injected", [b"250 ok", b"250-x\r\n250 AUTH PLAIN\r\n235 in", b"x" * 100_000, b""])
def test_bytes_behind_the_answer_to_starttls_end_the_conversation(injected):
    server = Scripted({"STARTTLS": b"220 go\r\n" + injected}, offers=["STARTTLS"], within=["AUTH PLAIN"])
    told = sent(server, "smtp", "ann:hunter2@")

    assert type(told) is Refused
    assert not server.shows(encrypted=True)


def test_bytes_that_were_received_unseen_before_tls_are_no_reply_of_the_encrypted_server():
    server = Scripted(offers=["STARTTLS"], within=["HERE"])

    async def main() -> tuple[str, ...]:
        async with server.listening():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            connection = Connection(reader, writer, STEP)
            await connection.reply()
            await connection.command("STARTTLS")
            # They came between the last look of the connection and the beginning of TLS.
            reader.feed_data(b"250-injected\r\n250 injected\r\n")
            await connection.encrypt(values(server, "starttls"))
            reply = await connection.command("EHLO me")
            connection.close()
            return reply.lines

    assert run(main()) == ("server", "HERE")


def values(server: Scripted, security: Any, **more: Any) -> Server:
    return Server("127.0.0.1", server.port, security, trusting(), timeout=STEP, **more)


def test_a_login_that_is_offered_only_outside_of_tls_is_not_used():
    server = Scripted(offers=["STARTTLS", "AUTH PLAIN"])
    told = sent(server, "smtp", "ann:hunter2@")

    assert type(told) is Refused
    assert "offers no login" in str(told)
    assert "AUTH" not in server.verbs


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
@pytest.mark.parametrize(
    ("certificate", "authority", "told"),
    [("other", str(AUTHORITY), "another host name"), ("local", "", "is not trusted")],
)
def test_a_server_with_a_wrong_certificate_gets_nothing(scheme, certificate, authority, told, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    server = Scripted(at_once=scheme == "smtps", offers=["STARTTLS"], certificate=certificate)
    answer = sent(server, scheme, "ann:hunter2@")

    assert type(answer) is Refused
    assert told in str(answer)
    assert not server.shows(encrypted=True)
    assert not server.texts


def test_a_server_without_tls_on_a_port_for_tls_gets_nothing():
    server = Scripted({"\x16\x03\x01": b"500 what?"})

    assert type(sent(server, "smtps", "ann:hunter2@")) is Refused
    assert not server.texts


def test_a_long_mail_arrives_whole_within_tls():
    server = Scripted(at_once=True)
    sent(server, "smtps", text=lambda r: "word\n" * 200_000)

    [text] = server.texts
    assert text.count(b"word\r\n") == 200_000


# ----- logging in

CHALLENGE = b"334 PDE4OTYuNjk3MTcwOTUyQHBvc3RvZmZpY2UucmVzdG9uLm1jaS5uZXQ+"
"""The example of RFC 2195."""
NAME, PASSWORD = b"334 VXNlcm5hbWU6", b"334 UGFzc3dvcmQ6"


def coded(text: bytes) -> str:
    return b64encode(text).decode()


@pytest.mark.parametrize(
    ("offers", "script", "login", "heard"),
    [
        (
            ["AUTH LOGIN PLAIN"],
            {},
            "ann:hunter2@",
            [f"AUTH PLAIN {coded(b'.ann.hunter2'.replace(b'.', bytes(1)))}"],
        ),
        (
            ["AUTH PLAIN"],
            {"AUTH": b"334 ", "answer": b"235 in"},
            "ann:hunter2@",
            ["AUTH PLAIN AGFubgBodW50ZXIy", "AGFubgBodW50ZXIy"],
        ),
        (
            ["AUTH LOGIN XOAUTH2"],
            {"AUTH": NAME, "answer": [PASSWORD, b"235 in"]},
            "ann:hunter2@",
            ["AUTH LOGIN", coded(b"ann"), coded(b"hunter2")],
        ),
        (["auth login"], {"AUTH": b"503 you are in"}, "ann:hunter2@", ["AUTH LOGIN"]),
        (["AUTH=LOGIN"], {"AUTH": b"235 in"}, "ann:hunter2@", ["AUTH LOGIN"]),
        (
            ["AUTH PLAIN LOGIN", "AUTH CRAM-MD5"],
            {"AUTH": CHALLENGE, "answer": b"235 in"},
            "tim:tanstaaftanstaaf@",
            ["AUTH CRAM-MD5", "dGltIGI5MTNhNjAyYzdlZGE3YTQ5NWI0ZTZlNzMzNGQzODkw"],
        ),
        (
            ["AUTH PLAIN CRAM-MD5"],
            {"AUTH": [CHALLENGE, b"235 in"], "answer": b"535 no"},
            "tim:tanstaaftanstaaf@",
            [
                "AUTH CRAM-MD5",
                "dGltIGI5MTNhNjAyYzdlZGE3YTQ5NWI0ZTZlNzMzNGQzODkw",
                f"AUTH PLAIN {coded(bytes(1) + b'tim' + bytes(1) + b'tanstaaftanstaaf')}",
            ],
        ),
        (
            ["AUTH PLAIN CRAM-MD5"],
            {"AUTH": [b"334 ????", b"235 in"], "answer": b"501 cancelled"},
            "ann:hunter2@",
            ["AUTH CRAM-MD5", "*", "AUTH PLAIN AGFubgBodW50ZXIy"],
        ),
        (
            ["AUTH PLAIN"],
            {},
            "ann%40example.org:p%C3%A4ss@",
            [f"AUTH PLAIN {coded(bytes(1) + b'ann@example.org' + bytes(1) + 'päss'.encode())}"],
        ),
    ],
)
@pytest.mark.parametrize("scheme", ["smtps", "smtp+plain"])
def test_a_login_uses_the_strongest_way_that_is_offered(scheme, offers, script, login, heard):
    server = Scripted(script, at_once=scheme == "smtps", offers=offers, within=offers)

    assert sent(server, scheme, login)["said"] == "taken"
    assert [line for _, line in server.heard][1:-3] == heard


@pytest.mark.parametrize(
    ("offers", "script"),
    [
        ([], {}),
        (["AUTH XOAUTH2"], {}),
        (["AUTH PLAIN"], {"AUTH": b"535 no"}),
        (["AUTH PLAIN"], {"AUTH": b"454 not now"}),
        (["AUTH PLAIN LOGIN CRAM-MD5"], {"AUTH": b"535 no"}),
        (["AUTH PLAIN"], {"AUTH": b"334 ", "answer": b"334 "}),
        (["AUTH LOGIN"], {"AUTH": NAME, "answer": b"334 "}),
        (["AUTH PLAIN"], {"AUTH": b"535 no(cut)"}),
        (["AUTH PLAIN"], {"AUTH": b"(cut)"}),
    ],
)
def test_a_server_that_lets_nobody_in_gets_no_mail_and_no_secret_is_quoted(offers, script):
    server = Scripted(script, offers=offers)
    told = sent(server, "smtp+plain", "ann:hunter2@")

    assert type(told) is Refused
    assert "MAIL" not in server.verbs
    assert not [secret for secret in SECRETS if secret in repr(told)]


def test_a_login_that_does_not_end_is_given_up_before_another_begins():
    server = Scripted({"AUTH": b"334 ", "answer": b"334 "}, offers=["AUTH LOGIN PLAIN"])

    assert type(sent(server, "smtp+plain", "ann:hunter2@")) is Refused
    assert server.verbs == ["EHLO", "AUTH", "AGFubgBodW50ZXIy"]


def test_a_password_of_any_bytes_is_sent_as_it_is():
    server = Scripted(offers=["AUTH PLAIN"])
    sent(server, "smtp+plain", "ann@", password=os.fsdecode(b"p\xff"))

    assert server.heard[1] == (
        False,
        f"AUTH PLAIN {coded(bytes(1) + b'ann' + bytes(1) + bytes([0x70, 0xFF]))}",
    )


def test_the_values_of_a_server_do_not_show_its_password():
    assert "hunter2" not in repr(Server("host", 1, "plain", user="ann", password="hunter2"))


# ----- replies

UNREADABLE = [
    b"",
    b"25",
    b"250ok",
    b"+25 ok",
    b" 25 ok",
    b"2_5 ok",
    b"2\x0050 ok",
    b"\xff\xfe50 ok",
    "٢٥٠ ok".encode(),
    b"250 " + b"x" * LINE,
    b"2" * 100_000,
    b"250-x\r\n" * LINES + b"250 x",
    b"250-ok\r\n550 no",
    b"550-no\r\n250 ok",
    b"250-ok\r\nok",
    b"250 o(cut)",
    b"250-ok\r\n(cut)",
    b"(cut)",
    SILENT,
]
"""What is no reply, though some of it begins like one."""


@pytest.mark.parametrize("stage", ["hello", "EHLO", "MAIL", "RCPT", "DATA", "text"])
@pytest.mark.parametrize("answer", UNREADABLE, ids=lambda answer: repr(answer)[:24])
def test_what_is_no_reply_says_nothing(stage, answer):
    if stage in ("hello", "DATA"):
        answer = answer.replace(b"250", FINE[stage][:3]) if answer is not SILENT else answer
    server = Scripted({stage: answer})
    told = sent(server)

    assert type(told) is (InDoubt if stage == "text" else Refused)
    assert len(server.texts) == (stage == "text")


def test_a_line_without_an_end_is_given_up_though_its_server_stays():
    server = Scripted({"MAIL": b"2" * (LINE + 1) + b"(hold)"})

    told = sent(server)

    assert type(told) is Refused
    assert "a line of more than" in str(told)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(b"199 x", InDoubt), (b"354 x", InDoubt), (b"600 x", InDoubt), (b"000 x", InDoubt), (b"421 x", Refused)],
)
def test_a_reply_that_has_no_meaning_after_the_text_leaves_the_mail_in_doubt(answer, kind):
    assert type(sent(Scripted({"text": answer}))) is kind


@pytest.mark.parametrize("answer", [b"550-it is\r\n550 not so", b"550", b"550 n\xf6 \0", b"599 x"])
@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA", "text"])
def test_a_reply_of_5_is_final_whatever_its_text(stage, answer):
    assert type(sent(Scripted({stage: answer}))) is Rejected


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"250", ""),
        (b"250 taken \xe2\x9c\x93", "taken ✓"),
        (b"250 n\xf6 \0\x1b[31m\r.", "n�   [31m ."),
        (b"250-taken\r\n250 as 7", "taken as 7"),
        (b"250-taken\n250 as 7", "taken as 7"),
        (b"250 " + b"x" * 1000, "x" * 200),
        (b"250 " + b"x" * (LINE - 5), "x" * 200),
        (b"250-x\r\n" * (LINES - 1) + b"250 x", " ".join("x" * LINES)),
        (b"250 taken\r\n421 I am leaving", "taken"),
    ],
)
def test_the_text_of_a_reply_is_kept_as_printable_characters(answer, said):
    assert sent(Scripted({"text": answer}))["said"] == said


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
def test_a_server_that_answers_before_it_is_asked_gets_no_text(stage):
    server = Scripted({stage: FINE[stage] + b"\r\n250 taken"})
    told = sent(server)

    assert type(told) is Refused
    assert not server.texts


def test_a_server_that_only_knows_the_old_greeting_gets_its_mail():
    server = Scripted({"EHLO": b"502 what?"})

    assert sent(server)["said"] == "taken"
    assert server.verbs[:2] == ["EHLO", "HELO"]


def test_a_command_with_a_line_break_is_not_sent():
    server = Scripted()

    async def main() -> None:
        async with server.listening():
            connection = await connect(values(server, "plain"), "me")
            for line in ("RCPT TO:<a>\r\nRCPT TO:<b>", "NOOP\0", "NOOP ü"):
                with pytest.raises(Broken):
                    await connection.command(line)
            await connection.command("NOOP")
            connection.close()

    run(main())
    assert server.verbs == ["EHLO", "NOOP"]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"", b"\r\n.\r\n"),
        (b"a", b"a\r\n.\r\n"),
        (b"a\r\n", b"a\r\n.\r\n"),
        (b"a\r\n\r\n", b"a\r\n\r\n.\r\n"),
        (b".\r\n..\r\n.a", b"..\r\n...\r\n..a\r\n.\r\n"),
        (b"a\n.\nMAIL", b"a\r\n..\r\nMAIL\r\n.\r\n"),
        (b"a\r.\rMAIL", b"a\r\n..\r\nMAIL\r\n.\r\n"),
        (b"a\r\n.\rMAIL\n\r.", b"a\r\n..\r\nMAIL\r\n\r\n..\r\n.\r\n"),
    ],
)
def test_no_line_of_a_text_can_end_it(raw, wanted):
    assert stuffed(raw) == wanted


# ----- time, names and cancellation


def test_the_timeout_is_for_each_step_and_not_for_the_mail():
    server = Scripted(offers=["STARTTLS"], within=["AUTH LOGIN"], late=STEP - 5)
    server.script |= {"AUTH": NAME, "answer": [PASSWORD, b"235 in"]}

    assert sent(server, "smtp", "ann:hunter2@")["said"] == "taken"


@pytest.mark.parametrize(
    ("scheme", "stage", "kind", "passed"),
    [
        ("smtps", "", dict, 0),
        ("smtp", "", dict, 0),
        ("smtps", "hello", Refused, STEP),
        ("smtp", "RCPT", Refused, STEP),
        ("smtp", "text", InDoubt, STEP),
        ("smtp+plain", "text", InDoubt, STEP),
    ],
)
def test_a_step_takes_exactly_its_timeout(loop, scheme, stage, kind, passed):
    server = Scripted({stage: SILENT}, at_once=scheme == "smtps", offers=["STARTTLS"])
    loop.network.latency = (0, 0)

    async def main() -> tuple[type, float]:
        async with server.listening():
            [told] = await sink(server, scheme).put([(Won(Key("stage", "r1")), RECORD)])
            return type(told), loop.time()

    assert run(main()) == (kind, passed)


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_handshake_that_stalls_ends_with_its_step(scheme):
    class Mute(Scripted):
        """Takes the client's first word of TLS, and says nothing more."""

        async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if scheme == "smtp":
                for verb in ("hello", "EHLO", "STARTTLS"):
                    await self._say(writer, reader, verb, self.offers)
                    await reader.readline()
            await reader.read(1)
            await self._say(writer, reader, "silence")

    server = Mute({"silence": SILENT}, offers=["STARTTLS"])

    assert type(sent(server, scheme)) is Refused
    assert server.is_waiting.is_set()


def test_every_address_of_a_name_is_tried(loop, monkeypatch):
    known = {"several.example": ["127.0.0.2", "127.0.0.1"], "none.example": []}  # no server has the first

    async def addresses(host: str, port: int, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known[host]]

    monkeypatch.setattr(loop, "getaddrinfo", addresses)

    assert sent(Scripted(), host="several.example")["said"] == "taken"
    assert type(sent(Scripted(), host="none.example")) is Refused


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example"])
def test_a_name_that_cannot_be_one_was_certainly_not_asked(host):
    assert type(put_one(sink(Scripted(), "smtp+plain", host=host), RECORD)) is Refused


@pytest.mark.parametrize(
    ("scheme", "stage"),
    [
        ("smtps", "hello"),
        ("smtp+plain", "hello"),
        ("smtp", "STARTTLS"),
        ("smtp", "AUTH"),
        ("smtps", "MAIL"),
        ("smtp+plain", "DATA"),
        ("smtps", "text"),
        ("smtp+plain", "text"),
    ],
)
def test_a_cancelled_mail_closes_its_connection(scheme, stage):
    script = {stage: SILENT}
    server = Scripted(script, at_once=scheme == "smtps", offers=["STARTTLS"], within=["AUTH PLAIN"])

    async def main() -> None:
        async with server.listening():
            one = sink(server, scheme, "ann:hunter2@" if stage == "AUTH" else "")
            sending = asyncio.create_task(one.put([(Won(Key("stage", "r1")), RECORD)]))
            await server.is_waiting.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await server.is_left.wait()

    run(main())
