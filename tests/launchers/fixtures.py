"""Servers as fixtures: `postgresql_server` for the length of a run, `postgresql_url` a fresh place per test.

A server starts at its first use, once in every process that runs tests. With `--dist loadgroup` the tests of
one server are kept in one process, or in two where a server starts quickly. A server that cannot be had is a
skip with the reason, and where CI=true a failure. Tests that stop or kill a server take `own_server`, never
the shared ones.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from zlib import crc32

import pytest

from tests.launchers.recipes import RECIPES
from tests.launchers.server import Launched, Missing, Server, in_memory, running

OwnServer = Callable[[str], Server]


@contextmanager
def lent(name: str) -> Iterator[Server]:
    """Lend a server by name, or end the test with the reason why there is none."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(RECIPES[name], in_memory()))
        except Missing as missing:
            excuse(f"{name}: {missing}")
        yield server


def excuse(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def for_the_run(name: str) -> Any:
    @pytest.fixture(scope="session", name=f"{name}_server")
    def server() -> Iterator[Server]:
        with lent(name) as started:
            yield started

    return server


def for_one_test(name: str) -> Any:
    @pytest.fixture(name=f"{name}_url")
    def url(request: pytest.FixtureRequest) -> Iterator[str]:
        server: Server = request.getfixturevalue(f"{name}_server")
        with server.place() as place:
            yield place

    return url


postgresql_server, postgresql_url = for_the_run("postgresql"), for_one_test("postgresql")
redis_server, redis_url = for_the_run("redis"), for_one_test("redis")
dynamodb_server, dynamodb_url = for_the_run("dynamodb"), for_one_test("dynamodb")
mongodb_server, mongodb_url = for_the_run("mongodb"), for_one_test("mongodb")
mariadb_server, mariadb_url = for_the_run("mariadb"), for_one_test("mariadb")
cassandra_server, cassandra_url = for_the_run("cassandra"), for_one_test("cassandra")
anvil_server, anvil_url = for_the_run("anvil"), for_one_test("anvil")


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    """Start a server that only this test has, which it may stop, kill and restart."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(lent(name))


def launched(own_server: OwnServer, name: str) -> Launched:
    """Give a server that only this test has, and may do anything to."""
    return ours(own_server(name))


def ours(server: Server) -> Launched:
    """Take a server that was started here, or end the test: what somebody else runs is left as it is."""
    if not isinstance(server, Launched):
        pytest.skip(f"{server.origin} names a server that is not ours to stop, change or fill")
    return server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    places: dict[str | None, int] = {group: place for place, group in enumerate(LONGEST)}
    order: dict[pytest.Item, int] = {}
    for item in items:
        group = group_of(item)
        starts_its_own = "own_server" in getattr(item, "fixturenames", ())
        order[item] = places.get(group, len(LONGEST) + (not starts_its_own))
        if group and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=order.__getitem__)


QUICK = ("postgresql", "mariadb", "mongodb")
"""Servers that start within a second and have many tests, so two processes may each start one."""

LONGEST = ("cassandra", "postgresql-0", "mariadb-0", "mongodb-0", "postgresql-1", "mariadb-1")
"""The groups that take longest. They begin first, then tests that start servers of their own, or the last of
them would run alone in the end."""


def group_of(item: pytest.Item) -> str | None:
    """Name the tests that have to run in the process of this one, because they share a server.

    A test that starts its own server and uses no shared one may run anywhere.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    used = {name for name in RECIPES if fixtures & {f"{name}_server", f"{name}_url"}}
    marked = {name for mark in item.iter_markers("store") for name in mark.args}
    if not used and "own_server" in fixtures:
        return None
    name = next((name for name in RECIPES if name in marked | used), None)
    half = crc32(item.nodeid.partition("::")[0].encode()) % 2  # tests of one file stay together
    return f"{name}-{half}" if name in QUICK else name
