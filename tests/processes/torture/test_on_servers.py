"""The tortures on stores that have a server: workers, zombies, the server itself, and the cable to it."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from onefold.core.entry import EFFECTS
from onefold.testing.torture.places import PLACES
from tests.torture.ended import Ended

slow = pytest.mark.slow
many_seconds = pytest.mark.timeout(1500)

ON_SERVERS = [name for name, place in PLACES.items() if place.on_server]

Tortured = Callable[..., Ended]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.store(name)) for name in ON_SERVERS])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def every_day_on(*stores: str) -> pytest.MarkDecorator:
    """Run on these stores every day and on all with --slow; each has everyday tests of its own troubles."""
    return pytest.mark.parametrize(
        "store",
        [
            pytest.param(name, marks=[pytest.mark.store(name), *([] if name in stores else [slow])])
            for name in ON_SERVERS
        ],
    )


@pytest.fixture
def tortured(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Tortured:
    """Run a torture on the server that all tests share."""
    server = request.getfixturevalue(f"{store}_server")

    def run(verb: str, *arguments: str) -> Ended:
        variables = {f"{store.upper()}_URL": server.url}
        return Ended(tmp_path, verb, "--store", store, *arguments, **variables)

    return run


@pytest.fixture
def with_its_own_server(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Tortured:
    """Run a torture as `./dev torture` does: beside a server that it may kill."""
    request.getfixturevalue(f"{store}_server")  # or the reason why there is none

    def run(verb: str, *arguments: str) -> Ended:
        # A server may run as another user, who cannot enter the folder of a test.
        temporary = tempfile.gettempdir()
        return Ended(tmp_path, verb, "--store", store, *arguments, module="tests.torture", TMPDIR=temporary)

    return run


@every_day_on("postgresql", "redis", "mongodb", "dynamodb")
@pytest.mark.parametrize("count", ["15", pytest.param("500", marks=[slow, many_seconds])])
def test_what_a_ledger_tells_is_what_the_server_has(count: str, tortured: Tortured):
    ended = tortured("reply-loss", "--count", count)

    assert ended.code == 0, ended.text
    assert ended.number("cut") == int(count)
    assert ended.number("misclassified") == 0
    assert ended.left == []


@every_day_on("redis")
@pytest.mark.parametrize("plant", ["unknown-is-busy", "unknown-is-won"])
def test_a_client_that_takes_unknown_for_an_answer_is_found(plant: str, tortured: Tortured):
    ended = tortured("reply-loss", "--count", "6", "--plant", plant)

    assert ended.code == 1, ended.text
    assert ended.number("misclassified") > 0


@every_day_on("postgresql", "redis", "dynamodb")
@pytest.mark.parametrize(
    "effect", ["one-shot", *(pytest.param(one, marks=slow) for one in ("joined", "keyed"))]
)
def test_what_is_promised_survives_kills_of_workers(effect: str, store: str, tortured: Tortured):
    if effect == "joined" and not PLACES[store].callers:
        pytest.skip(f"{store} has no transactions to join")
    ended = tortured("kill", "--effect", effect, "--kills", "30")

    assert ended.code == 0, ended.text
    assert ended.number("lost") == ended.number("unexplained") == ended.number("duplicated") == 0


@every_day_on("postgresql", "redis")
@pytest.mark.parametrize(
    "effect", ["idempotent", *(pytest.param(one, marks=slow) for one in ("joined", "one-shot"))]
)
def test_what_is_promised_survives_kills_of_the_server(
    effect: str, store: str, with_its_own_server: Tortured
):
    if effect == "joined" and not PLACES[store].callers:
        pytest.skip(f"{store} has no transactions to join")
    ended = with_its_own_server("kill", "--effect", effect, "--kills", "0", "--server-kills", "1")

    assert ended.code == 0, ended.text
    assert ended.number("server kills") == 1
    assert ended.number("lost") == ended.number("unexplained") == 0
    assert effect == "idempotent" or ended.number("duplicated") == 0


@every_day_on("postgresql", "redis")
@pytest.mark.parametrize("count", ["4", pytest.param("60", marks=[slow, many_seconds])])
def test_no_zombie_writes_what_is_no_longer_its_own(count: str, tortured: Tortured):
    ended = tortured("zombie", "--count", count)

    assert ended.code == 0, ended.text
    assert ended.number("stale writes accepted") == ended.number("duplicated") == 0


@slow
@many_seconds
@pytest.mark.parametrize("effect", EFFECTS)
def test_what_is_promised_survives_four_hundred_kills_and_the_servers(
    effect: str, store: str, with_its_own_server: Tortured
):
    if effect == "joined" and not PLACES[store].callers:
        pytest.skip(f"{store} has no transactions to join")
    ended = with_its_own_server("kill", "--effect", effect, "--kills", "400", "--server-kills", "10")

    assert ended.code == 0, ended.text
    assert ended.number("kills") == 400
    assert ended.number("lost") == ended.number("unexplained") == 0


@slow
def test_a_kill_while_the_tables_are_made_does_not_stand_in_the_way(tortured: Tortured):
    ended = tortured("birth", "--count", "40")

    assert ended.code == 0, ended.text
    assert ended.number("wedged") == 0


def test_a_store_without_a_server_has_no_cable_to_be_cut(tmp_path: Path):
    ended = Ended(tmp_path, "reply-loss", "--store", "sqlite")

    assert ended.code == 2
    assert "no cable to be cut" in ended.errors


def test_a_store_that_needs_a_server_says_so(tmp_path: Path):
    ended = Ended(tmp_path, "zombie", "--store", "postgresql", POSTGRESQL_URL="")

    assert ended.code == 2
    assert "needs a server: give --url or $POSTGRESQL_URL; ./dev torture starts one" in ended.errors


@slow
@many_seconds
def test_what_the_doctor_calls_safe_loses_nothing_when_the_server_is_killed(
    store: str, with_its_own_server: Tortured
):
    ended = with_its_own_server("durability", "--kills", "2")

    assert ended.code == 0, ended.text
    # The first setting of every store is the one that the doctor has nothing against.
    assert re.search(r"lost (\d+)", ended.lines[0]), ended.text
    assert ended.lines[0].endswith("lost 0"), ended.text


@slow
def test_a_herd_has_one_winner_on_a_server(store: str, tortured: Tortured):
    ended = tortured("herd", "--count", "2000")

    assert ended.code == 0, ended.text
    assert ended.number("won") == 1
