"""Posts records to an HTTP service that knows idempotency keys: a repeat is ignored there, within its window.

The key of the effect becomes the `Idempotency-Key`, and the request is stored before it is first sent, so
that every attempt repeats the same bytes. What a status means is decided in `judged`, which asks nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onefold.core.entry import Effect
from onefold.core.errors import Later, Misconfigured, Refused, Rejected
from onefold.core.ports import Claim
from onefold.core.record import Record
from onefold.core.redaction import is_web
from onefold.core.terms import Duration, Seconds, forever_or_seconds, seconds
from onefold.runtime import current, now
from onefold.runtime.http import Answer, Ask, NoAnswer, check_installed, retry_after, shown

STORED = 32 * 1024
"""The largest request that is stored before it is sent, in bytes."""

SENT = 10 * 1024 * 1024
"""The largest request that is sent at all."""

RECEIPT = 16 * 1024
"""How much of an answer is kept as receipt."""

LONGEST: Seconds = 3600.0
"""The longest that a far side may send us away for; one that asks for more is asked again after this."""

NOT_LET_IN = (401, 403, 407)
"""A wrong or rotated credential: nothing happened, and nothing is wrong with the record."""

Address = str | Callable[[Record], str]


class Http:
    """Sends `body(record)`, as JSON unless it is text, to `url` under the key of the effect.

    Say how long the far side remembers a key: after that window an attempt in doubt is parked, not repeated.
    A far side that knows no keys is `effect="one-shot"`; one that bears repeats is `effect="idempotent"`.
    """

    def __init__(
        self,
        url: Address,
        *,
        window: Duration | None = None,
        effect: Effect = "keyed",
        method: str = "POST",
        body: Callable[[Record], Any] = lambda record: record.body,
        headers: Mapping[str, str] | None = None,
        header: str = "Idempotency-Key",
        timeout: Duration = "30s",
        stored: bool = True,
    ) -> None:
        check_installed("a sink over HTTP")
        if effect == "joined":
            raise Misconfigured("an HTTP service commits nothing with the ledger: give another effect")
        if effect == "keyed" and window is None:
            raise Misconfigured(
                "a keyed sink needs window=, how long the far side remembers a key: "
                'write window="24h", or "forever"'
            )
        self.effect: Effect = effect
        self.window = None if window is None else forever_or_seconds(window, "window")
        self.prepare = self._prepared if stored else None
        self._url = url if callable(url) else _checked(url)
        self._method = method
        self._body = body
        self._headers = dict(headers or {})
        self._header = header
        self._timeout = seconds(timeout, "timeout")

    async def put(self, work: Sequence[tuple[Claim, Record]]) -> Sequence[Any | Exception]:
        return [await self._sent(claim, record) for claim, record in work]

    async def _prepared(self, claim: Claim, record: Record) -> dict[str, str]:
        """Make the request that every attempt repeats."""
        request = self._request(record)
        if len(request["body"].encode()) > STORED:
            raise Rejected(
                f"the request for {claim.key} has more than {STORED} bytes, too many to be stored: "
                "send less, or give stored=False and a body= that makes the same bytes every time"
            )
        return request

    def _request(self, record: Record) -> dict[str, str]:
        request = {"body": _text(self._body(record))}
        if not callable(self._url):
            return request  # a fixed address is not stored: it may hold a secret
        try:
            return {**request, "url": _checked(self._url(record))}
        except Misconfigured as error:
            raise Rejected(str(error)) from error

    async def _sent(self, claim: Claim, record: Record) -> Any:
        try:
            request = claim.request or self._request(record)
        except Refused as error:
            return error
        except Exception as error:  # the function is the caller's; nothing was sent
            return Refused(f"the request for {claim.key} could not be made: {error!r:.200}")
        body = request["body"].encode()
        if len(body) > SENT:
            return Rejected(f"the request for {claim.key} has more than {SENT} bytes: send less")
        url = request.get("url") or str(self._url)
        headers = {"Content-Type": "application/json", **self._headers, self._header: claim.key.id.hex()}
        try:
            answer = await current().http(Ask(self._method, url, headers, body, self._timeout, RECEIPT))
        except (Refused, NoAnswer) as error:
            return error
        return judged(answer, shown(url), self.effect, now())


def judged(answer: Answer, name: str, effect: Effect, now: float) -> Any:
    """Say what an answer means: a receipt, or the exception that says what is known."""
    status = answer.status
    said = f"{name} answered {status}"
    wait = later(answer.headers.get("retry-after"), now)
    match status:
        case _ if 200 <= status < 300:
            return receipt(answer)
        case 429:
            return Later(said, wait) if wait is not None else Refused(said)
        case _ if status in NOT_LET_IN:
            return Refused(f"{said}: check the credentials in headers=")
        case _ if 300 <= status < 400:
            return Rejected(f"{said}, a redirect, which is not followed: give the final address")
        case 408 | 409 | 425:
            # Too slow, or the same key is being worked upon: an earlier attempt may still happen.
            return NoAnswer(f"{said}: an attempt with this key may be under way")
        case _ if 400 <= status < 500:
            return Rejected(f"{said}: {_words(answer)}")
        case 503 if wait is not None and effect != "one-shot":
            return Later(said, wait)
        case _:
            return NoAnswer(f"{said}: {_words(answer)}")


def later(header: str | None, now: float) -> Seconds | None:
    """Read for how long a service sends us away, up to a limit; None if it does not say."""
    wait = retry_after(header, now)
    return None if wait is None else min(wait, LONGEST)


def receipt(answer: Answer) -> dict[str, Any]:
    """Keep what a far side answered; what is no JSON, or was cut, is kept as text."""
    kept: dict[str, Any] = {"status": answer.status}
    if not answer.whole:
        kept["cut"] = True
    if answer.body:
        try:
            kept["body"] = json.loads(answer.body)
        except (ValueError, RecursionError):
            kept["body"] = answer.body.decode("utf-8", "replace")
    return kept


def _words(answer: Answer) -> str:
    text = answer.body[:200].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else " " for char in text) or "without a word"


def _text(body: Any) -> str:
    if isinstance(body, bytes):
        raise Rejected("body= gave bytes: give text, or values that JSON knows")
    try:
        return body if isinstance(body, str) else json.dumps(body, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise Rejected(f"body= gave what JSON cannot say: {error}") from error


def _checked(url: str) -> str:
    if not is_web(url, "the URL of the web service"):
        raise Misconfigured(f"{shown(url)} is no address of a web service: write https://host/path")
    return url
