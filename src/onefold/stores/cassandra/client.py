"""A session of cassandra-driver behind the face that the plan asks for: statements leave together.

One session per process, made at first use, anew after a fork or when all its connections are gone; threads
share it. It never repeats a statement by itself: a repeated lightweight transaction tells its own winner that
it lost. An outcome is a value, so that one failure in a batch does not hide what became of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    RoundRobinPolicy,
)
from cassandra.query import BatchStatement, BatchType, dict_factory

from onefold.core.errors import Misconfigured, OnefoldError, Unanswered, Unreachable
from onefold.drive import run
from onefold.runtime import now
from onefold.stores.cassandra.address import Address
from onefold.stores.cassandra.batches import messages
from onefold.stores.cassandra.errors import Silent, sorted_out, unreached
from onefold.stores.cassandra.rows import Outcome, Statement
from onefold.stores.cassandra.schema import NEW_TABLES, prepare, statements
from onefold.stores.homes import OfProcess
from onefold.stores.shells import Clients

WIDTH = 64
"""Messages of one call that are in flight at the same time."""

RECONNECT = 0.5
"""Seconds between attempts to reach a node that is down, while others are there."""


class Link:
    """A session, and the statements that its servers know."""

    def __init__(self, cluster: Cluster, session: Any, address: Address) -> None:
        self._cluster = cluster
        self._session = session
        self._name = address.name
        self._texts = statements(address)
        self._known: dict[str, Any] = {}

    def learn(self) -> None:
        """Prepare all statements, while nothing depends on them: the driver's wait for it cannot be set."""
        try:
            for name in self._texts.keys() - NEW_TABLES:
                self._known[name] = self._session.prepare(self._texts[name])
        except Exception as error:
            raise sorted_out(error, self._name) from error
        # What was agreed, and not only what a majority of the replicas has been told of it.
        self._known["look"].consistency_level = ConsistencyLevel.SERIAL

    def execute_many(self, asked: Sequence[Statement]) -> list[Outcome]:
        """Send statements, hints of one partition together. Messages after a failed one are not sent."""
        sent = messages(asked)
        flight = Flight(len(sent), self._name)
        for number, places in enumerate(sent):
            if flight.cleared(number):
                flight.take(number, partial(self._send, [asked[at] for at in places]))
        outcomes: list[Outcome] = [[]] * len(asked)
        for places, outcome in zip(sent, flight.landed(), strict=True):
            for at in places:
                outcomes[at] = outcome
        return outcomes

    def define(self, definition: str) -> Outcome:
        """Change the schema. Everybody does so through one node: two at once could make two of one table."""
        hosts = [host for host in self._cluster.metadata.all_hosts() if host.is_up]
        return self.query(definition, min(hosts, key=lambda host: str(host.address), default=None))

    def query(self, text: str, host: Any = None) -> Outcome:
        """Ask for something that a ledger does not need every day."""
        try:
            return list(self._session.execute(text, host=host))
        except Exception as error:
            return sorted_out(error, self._name)

    def is_stale(self) -> bool:
        """Say whether no connection is left."""
        return not any(state["open_count"] for state in self._session.get_pool_state().values())

    def close(self) -> None:
        self._cluster.shutdown()

    def _send(self, together: Sequence[Statement]) -> Any:
        if len(together) == 1:
            [statement] = together
            return self._session.execute_async(self._known[statement.name].bind(statement.args))
        # The driver adds the present time as a default. The statements' own USING TIMESTAMP overrides it.
        batch = BatchStatement(BatchType.UNLOGGED)
        for statement in together:
            batch.add(self._known[statement.name], statement.args)
        return self._session.execute_async(batch)


class Flight:
    """Messages under way. The driver's thread tells how each ended; the caller's sends, and waits."""

    def __init__(self, count: int, name: str) -> None:
        self._name = name
        # No larger than needed: waiting for the last message takes one step for each place.
        self._width = min(count, WIDTH)
        self._room = threading.Semaphore(self._width)
        self._outcomes: list[Outcome | None] = [None] * count
        self._failed: OnefoldError | None = None

    def cleared(self, at: int) -> bool:
        """Wait for room; say whether the next message may still leave."""
        self._room.acquire()
        if self._failed is not None:
            reason = f"{self._name} was not asked, because of another statement: {self._failed}"
            self._end(at, Unreachable(reason))
        return self._failed is None

    def take(self, at: int, send: Callable[[], Any]) -> None:
        """Send a message."""
        try:
            future = send()
        except Exception as error:  # before it left: its values could not be written
            self._fail(error, at)
        else:
            future.add_callbacks(partial(self._answer, at), self._fail, errback_args=(at,))

    def landed(self) -> list[Outcome]:
        """Wait until every message has an outcome, and return the outcomes."""
        for _ in range(self._width):
            self._room.acquire()
        return [outcome for outcome in self._outcomes if outcome is not None]

    def _answer(self, at: int, rows: Any) -> None:
        self._end(at, list(rows or ()))

    def _fail(self, error: Exception, at: int) -> None:
        self._failed = sorted_out(error, self._name)
        self._end(at, self._failed)

    def _end(self, at: int, outcome: Outcome) -> None:
        self._outcomes[at] = outcome
        self._room.release()


class Client(OfProcess[Link]):
    """A link that is there when it is needed, to tables that were checked; shared by a process's threads."""

    def __init__(self, address: Address, create: bool = True, clock: Callable[[], float] = now) -> None:
        self.address = address
        self.now = clock
        self._create = create
        super().__init__()

    def execute_many(self, asked: Sequence[Statement]) -> list[Outcome]:
        """Send statements together; return what became of each."""
        if not asked:
            return []
        link = self._reach()
        outcomes = link.execute_many(asked)
        if any(isinstance(outcome, Misconfigured | Silent) for outcome in outcomes):
            # The tables may be gone or made anew, a connection be dead: the next call looks again.
            self._drop(link)
        return outcomes

    def query(self, text: str) -> Outcome:
        """Ask for something that a ledger does not need every day."""
        return self._reach().query(text)

    def close(self) -> None:
        self._leave_parent()
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def _reach(self) -> Link:
        self._leave_parent()
        with self._lock:
            if self._link is not None and self._link.is_stale():
                self._link.close()
                self._link = None
            if self._link is None:
                self._link = self._connect()
            return self._link

    def _drop(self, link: Link) -> None:
        with self._lock:
            if self._link is link:
                self._link = None
                link.close()

    def _connect(self) -> Link:
        with ExitStack() as undo:
            try:
                cluster = clustered(self.address)
                undo.callback(cluster.shutdown)
                link = Link(cluster, cluster.connect(), self.address)
            except Exception as error:
                raise unreached(error, self.address.name) from error
            try:
                run(prepare(self._create, self.address), Clients(link))
                link.learn()
            except Unanswered as error:
                raise Unreachable(f"{error}; nothing was asked of the ledger yet") from error
            undo.pop_all()
        return link


def clustered(address: Address) -> Cluster:
    """Return the driver's own idea of a cluster, not yet connected."""
    profile = ExecutionProfile(
        load_balancing_policy=DCAwareRoundRobinPolicy(address.dc) if address.dc else RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=address.timeout,
        row_factory=dict_factory,
    )
    login = PlainTextAuthProvider(address.user, address.password) if address.user else None
    return Cluster(
        list(address.hosts),
        port=address.hosts[0][1],
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        auth_provider=login,
        protocol_version=address.protocol,
        connect_timeout=address.timeout / 2,
        control_connection_timeout=address.timeout / 2,
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT, None),
        # Nothing here asks for them, and reading them takes longer than a claim.
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
        prepare_on_all_hosts=False,
        monitor_reporting_enabled=False,
        application_name="onefold",
    )
