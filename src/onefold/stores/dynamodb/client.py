"""A boto3 client behind the face that the plan asks for: requests leave together, a bounded number at a time.

One client per process, made at first use and anew after a fork; its threads share it. It never repeats a
request by itself, because a repeated conditional write tells its own winner that it lost. An outcome is a
value, so that one failure in a batch does not hide what became of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.drive import run
from onefold.drive.guard import Guard
from onefold.runtime import current, now
from onefold.stores.dynamodb.address import Address
from onefold.stores.dynamodb.errors import sorted_out
from onefold.stores.dynamodb.requests import Outcome, Request
from onefold.stores.dynamodb.schema import prepare
from onefold.stores.homes import OfProcess
from onefold.stores.shells import Clients

WIDTH = 16
"""Requests of a batch that are under way at the same time."""

CONFIG = Config(
    retries={"total_max_attempts": 1, "mode": "standard"},
    connect_timeout=5,
    read_timeout=5,
    max_pool_connections=4 * WIDTH,
    tcp_keepalive=True,
    # Requests are built by `requests` and nobody else: checking each of them again would only take time.
    parameter_validation=False,
    # Said in one word: boto3 would put together a long one anew for every request, at a tenth of its cost.
    user_agent="onefold",
)

_MAKING = Guard()
"""Held while a client is made, so that a fork waits for it. boto3 prepares TLS for every client, even for
plain HTTP. If a fork copies a lock that OpenSSL holds then, the child hangs when it makes its own client."""


class Link:
    """A client of boto3's, and the threads that let several of its requests be under way."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._threads: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()

    def execute_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """Send requests, `WIDTH` at a time. After one that failed, those not yet sent are not sent at all."""
        if len(requests) < 2:
            return [self._ask(request) for request in requests]
        failed: list[OnefoldError] = []

        def ask(request: Request) -> Outcome:
            if failed:
                return Unreachable(f"{self._name} was not asked, because of another request: {failed[0]}")
            outcome = self._ask(request)
            if isinstance(outcome, OnefoldError):
                failed.append(outcome)
            return outcome

        return list(self._pool().map(ask, requests))

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        current().wait(seconds)

    @property
    def endpoint(self) -> str:
        """The URL that requests go to: AWS's own, the store's, or one that the environment names."""
        return str(self._client.meta.endpoint_url)

    def close(self) -> None:
        if self._threads:
            self._threads.shutdown()
        self._client.close()

    def _ask(self, request: Request) -> Outcome:
        try:
            reply: dict[str, Any] = getattr(self._client, request.operation)(**request.arguments)
        except Exception as error:
            return sorted_out(error, self._name)
        return reply

    def _pool(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(WIDTH, "onefold-dynamodb")
            return self._threads


class Client(OfProcess[Link]):
    """A link that is there when it is needed, to a table that was checked; shared by a process's threads."""

    def __init__(self, address: Address, create: bool = True, clock: Callable[[], float] = now) -> None:
        self.address = address
        self.now = clock
        self._create = create
        super().__init__()

    def execute_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """Send requests together; return what became of each."""
        link = self._reach()
        outcomes = link.execute_many(requests)
        if any(isinstance(outcome, Misconfigured) for outcome in outcomes):
            # The table may be gone, or the credentials be old: the next call looks again.
            self._drop(link)
        return outcomes

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        current().wait(seconds)

    def endpoint(self) -> str:
        """Return the URL that requests go to."""
        return self._reach().endpoint

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            link, self._link = self._link, None
        if link:
            link.close()

    def _reach(self) -> Link:
        self._leave_parent()
        with self._lock:
            if self._link is None:
                self._link = self._connect()
            return self._link

    def _connect(self) -> Link:
        link = Link(connected(self.address), self.address.name)
        try:
            run(prepare(self.address.table, self._create, self.address.name), Clients(link))
        except Unanswered as error:
            raise Unreachable(f"{error}; nothing else was asked yet") from error
        return link

    def _drop(self, link: Link) -> None:
        """Forget a link without closing it: other threads may still be using it."""
        with self._lock:
            if self._link is link:
                self._link = None


def connected(address: Address, config: Config = CONFIG) -> Any:
    """Return a client of boto3's, with credentials from where AWS tools look; a local server takes any."""
    try:
        with _MAKING:
            session = botocore.session.get_session()
            session.register_component("data_loader", _models(session.get_config_variable("data_path")))
            return boto3.session.Session(botocore_session=session).client(
                "dynamodb",
                region_name=address.region,
                endpoint_url=address.endpoint,
                config=config,
                **_keys(session, address),
            )
    except BotoCoreError as error:
        outcome = sorted_out(error, address.name)
        assert isinstance(outcome, OnefoldError), "nothing was asked, so nothing was refused"
        raise outcome from error


def _keys(session: Any, address: Address) -> dict[str, str]:
    """Make sure that there are credentials; return some for a local server, if nobody set any."""
    if address.is_local:
        # Nobody's role serves a server on this machine, and asking for one takes seconds.
        session.get_component("credential_provider").remove("iam-role")
        return {} if session.get_credentials() else dict.fromkeys(_KEYS, "local")
    if session.get_credentials() is None:
        raise Misconfigured(
            f"there are no AWS credentials for {address.name}: set AWS_PROFILE or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, run `aws configure`, or give the machine a role"
        )
    return {}


@cache
def _models(path: str | None) -> Any:
    """Return what boto3 knows of AWS: read once, because that takes ten times as long as all else here."""
    return botocore.loaders.create_loader(path)


_KEYS = ("aws_access_key_id", "aws_secret_access_key")
