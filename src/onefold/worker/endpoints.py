"""A pool of endpoints: picks the address for the next connection, probes all of them, and remembers.

The addresses come from code, or from the live setting `endpoints.NAME` once an operator put one; it is read
at every pick, so a change holds from the next connection on. What is known of their health stands in a
document of its own, shared by all workers. What makes an endpoint healthy is decided in `core.endpoints`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from onefold.core.documents import listed as documents
from onefold.core.documents import load, named, save
from onefold.core.endpoints import (
    Demands,
    Endpoint,
    Facts,
    Patience,
    check_put,
    check_url,
    complaints,
    heard,
    is_private,
    ranked,
    text_of,
    wanted,
    with_health,
)
from onefold.core.errors import Misconfigured, OnefoldError, Unreachable
from onefold.core.key import Key
from onefold.core.reasons import described
from onefold.core.redaction import safe_url
from onefold.core.terms import Duration, seconds
from onefold.drive import AsyncPorts, arun
from onefold.runtime import current
from onefold.worker import settings
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import is_reference, resolved

log = logging.getLogger("onefold.worker")

Probe = Callable[[str], Awaitable[Facts]]


class NoEndpoint(OnefoldError):
    """A pool has no address that may be used."""


class Pool:
    """Addresses of one service. Give it to a source instead of an address.

    `probe(url)` finds out about one, and raises if it cannot; `demands` says what it must find. Without a
    probe, health is what connections tell. Addresses into private networks are refused unless `private`.
    """

    def __init__(
        self,
        name: str,
        endpoints: Sequence[str | Mapping[str, Any]],
        *,
        probe: Probe | None = None,
        demands: Demands | None = None,
        every: Duration = "30s",
        timeout: Duration = "10s",
        patience: Patience | None = None,
        schemes: Sequence[str] = ("ws", "wss"),
        private: bool = False,
    ) -> None:
        self.name = name
        self.key = pool_key(name)
        self._given = wanted(list(endpoints), schemes, private)
        self._folder = Path.cwd()  # file: references are relative to it, wherever the process goes later
        self._probe = probe
        self._demands = demands or Demands()
        self._every = seconds(every, f"every of pool {name}")
        self._timeout = seconds(timeout, f"timeout of pool {name}")
        self._patience = patience or Patience()
        self._schemes = tuple(schemes)
        self._private = private
        self._bound: AsyncPorts | None = None
        self._picked: dict[str, str] = {}

    # ----- for sources

    async def pick(self) -> str:
        """Give the best address there is, or the least bad; ask again before every connection."""
        refused: dict[str, str | None] = {}
        for one in ranked(await self.endpoints()):
            try:
                url = await self._checked(one)
            except Misconfigured as error:
                refused[one.url] = str(error)
                continue
            self._say(one)
            self._picked[url] = one.url
            await self._note(refused)
            return url
        await self._note(refused)
        reason = "; ".join(str(said) for said in refused.values()) or "none is enabled"
        change = f"onefold settings put {setting_name(self.name)} FILE"
        raise NoEndpoint(f"pool {self.name} has no address to use: {reason}; give another by `{change}`")

    async def tell(self, url: str, error: str | None) -> None:
        """Hear how a connection went: well, or how it failed."""
        if url in self._picked:
            await self._note({self._picked[url]: error})

    def _say(self, one: Endpoint) -> None:
        if one.health == "unhealthy":
            log.error(
                "no endpoint of %s is healthy: trying the least bad, %s, last failed: %s",
                self.name, one.shown, one.reason,
            )  # fmt: skip
        else:
            log.info("%s: next is %s, %s", self.name, one.shown, one.health)

    # ----- for the worker

    async def attend(self, ports: AsyncPorts) -> None:
        """Probe every endpoint again and again; a worker runs it beside its pipelines."""
        self._bound = ports
        while self._probe is not None:
            try:
                await self.check()
            except OnefoldError as error:
                log.warning("the endpoints of %s could not be checked: %s", self.name, error)
            await current().sleep(self._every * current().uniform(0.75, 1.25))

    async def check(self) -> None:
        """Probe every enabled endpoint once, and note what that says of its health."""
        found: dict[str, Facts | str] = {}
        # Before the group: a group wraps what its block raises, and the caller expects the store's own error.
        endpoints = ranked(await self.endpoints())
        async with anyio.create_task_group() as group:
            for one in endpoints:
                group.start_soon(self._ask, one, found)
        await self._note(complaints(found, self._demands))

    async def _ask(self, one: Endpoint, found: dict[str, Facts | str]) -> None:
        assert self._probe is not None, "only a pool with a probe asks"
        try:
            with anyio.fail_after(self._timeout):
                found[one.url] = await self._probe(await self._checked(one))
        except TimeoutError:
            found[one.url] = f"no answer within {self._timeout:g} s"
        except Exception as error:  # whatever a probe raises says that the endpoint is of no use now
            found[one.url] = described(error)

    # ----- what is known

    async def endpoints(self) -> list[Endpoint]:
        """Read the endpoints as they stand: those of the live setting if there is one, with their health."""
        ports, setting = self._ports(), settings.setting_key(setting_name(self.name))
        put, text = await arun(load([setting, self.key]), ports)
        return with_health(self._wanted(put.value.get("value") if put else None), text and text.value)

    def _wanted(self, put: Any) -> list[Endpoint]:
        if put is None:
            return self._given
        try:
            return wanted(put, self._schemes, self._private)
        except Misconfigured as error:
            log.error("%s is of no use, those from code are used: %s", setting_name(self.name), error)
            return self._given

    async def _note(self, told: Mapping[str, str | None]) -> None:
        if not told:
            return
        now, stands = current().time(), await self.endpoints()

        def change(text: Any) -> Any:
            known = with_health(stands, text)
            new = [
                heard(one, told[one.url], now, self._patience) if one.url in told else one for one in known
            ]
            changed = text_of(self.name, new)
            return None if changed == text else changed

        await arun(save(self.key, current().token(), change), self._ports())

    def _ports(self) -> AsyncPorts:
        if self._bound is None:
            raise Unreachable(f"pool {self.name} can be asked while its worker runs")
        return self._bound

    async def _checked(self, one: Endpoint) -> str:
        """Give the address itself, if it may be used."""
        what = f"an endpoint of {self.name}"
        url = resolved(one.url, what, self._folder) if is_reference(one.url) else one.url
        check_url(url, self._schemes, self._private)
        if not self._private:
            await check_host(url)
        return url


async def check_host(url: str) -> None:
    """Refuse a public name that leads into a private network; what is not found is left to the socket."""
    host = urlsplit(url).hostname or ""
    try:
        found = await anyio.getaddrinfo(host, None)
    except OSError:
        return
    if any(is_private(str(address[4][0])) for address in found):
        raise Misconfigured(f"{safe_url(url)} leads into a private network by its name: say private=True")


def pools(pipelines: Iterable[Pipeline]) -> list[Pool]:
    """Find the pools that sources of these pipelines use, each once; a source may name several."""
    found: dict[int, Pool] = {}
    for pipeline in pipelines:
        for source in pipeline.sources.values():
            named = getattr(source, "endpoints", None)
            several = named if isinstance(named, tuple) else (named,)
            found.update((id(pool), pool) for pool in several if isinstance(pool, Pool))
    return list(found.values())


# ----- for operators


def pool_key(name: str) -> Key:
    """Name the document in which the health of a pool stands."""
    return named("endpoints", name)


def setting_name(pool: str) -> str:
    """Name the live setting that holds a pool's addresses."""
    return f"endpoints.{pool}"


async def listed() -> list[dict[str, Any]]:
    """Read what is known of every pool: `pool`, and `endpoints` with `shown`, `health` and the rest."""
    return [document.value for _, document in await documents("endpoints")]


async def put(pool: str, rows: Any, by: str, token: str, expected: int) -> settings.Stored | None:
    """Put the addresses of a pool over the setting with this number (0: none); None if another stands."""
    check_put(rows)
    return await settings.put(setting_name(pool), rows, by, token, expected)
