"""Subject: one store on its server, against its own statements by hand and the peers that have it.

Single calls one after another, many at once, and batches; first with new keys, then with the same keys again.
Every contestant has a place of its own on the same server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Absent, Contestant, Effects, Keys, Sizes, Table, beside, compare, rounds_of
from benchmarks.stores import by_hand, ours, peers
from benchmarks.stores.player import Play, Player
from benchmarks.stores.servers import NotThere, lent
from onefold import Key
from onefold.stores import connect
from onefold.testing.torture.places import place

ROUNDS = 5
"""At most: a round trip to a server differs less from round to round than a sync does."""

SINGLES = 100
"""Single calls per round, at most."""


class Contest(NamedTuple):
    """What is particular to one store."""

    store: str
    batch: int
    """Keys in a batch, at most."""
    share: float = 1.0
    """How much of the work it gets: some servers need milliseconds for each key."""
    own_connections: bool = False
    """Whether a client is one connection, so that whoever wants many at once opens as many."""
    durability: Callable[[Any], str] | None = None
    """Read it back through the store's client, where it is the client's to say; else the server's holds."""
    against_hand: float | None = None
    """How many times as fast as by hand batches of new keys are to be."""
    against_peers: float | None = None
    """How many times as fast as the fastest peer single calls with new keys are to be."""
    done_against_peers: float | None = None
    """The same with keys that were done before."""
    batches_against_peers: float | None = None
    """How many times as fast as its single calls our batches are to be."""


def tables(contest: Contest, sizes: Sizes, folder: Path) -> Iterator[Table]:
    """Measure one store; where it cannot be, a table says why."""
    try:
        with ExitStack() as stack:
            server = stack.enter_context(lent(contest.store))
            yield from _tables(
                contest, _fewer(contest, sizes), partial(_lent, contest, server, folder, stack), stack
            )
    except NotThere as error:
        yield compare(f"{contest.store} was not measured", [Absent(contest.store, str(error))], [])


def _fewer(contest: Contest, sizes: Sizes) -> Sizes:
    most = {"batch": contest.batch, "singles": SINGLES, "claims": sizes.claims}
    cut = {name: ceil(min(getattr(sizes, name), top) * contest.share) for name, top in most.items()}
    return sizes._replace(rounds=min(sizes.rounds, ROUNDS), **cut)


def _lent(contest: Contest, server: str, folder: Path, stack: ExitStack, name: str) -> str:
    """Make a fresh place on the server, which is removed at the end."""
    found = place(contest.store)
    url = found.url(server, folder / name)
    stack.enter_context(found.lend(url))
    # The store makes its tables, also for those who write to them by hand.
    with closing(connect(url)) as store:
        store.get([Key("bench", "nothing")])
    return url


def _tables(contest: Contest, sizes: Sizes, url: Callable[[str], str], stack: ExitStack) -> Iterator[Table]:
    players = _players(contest, sizes, url, stack)
    singles = [_contestant(one, lambda one: one.single) for one in players]
    new, again = _both(contest, "Single calls", singles, rounds_of(sizes, sizes.singles, "single"))
    for table, least in (new, contest.against_peers), (again, contest.done_against_peers):
        if least is not None:
            table.aim_at_fastest(peers.NAMES, least)
        yield table
    at_once = [_contestant(one, lambda one: one.at_once) for one in players]
    rounds = rounds_of(sizes, sizes.tasks * sizes.claims, "at once")
    yield from _both(contest, f"{sizes.tasks} single calls at once", at_once, rounds)
    yield from _batches(contest, sizes, players, new)


def _players(
    contest: Contest, sizes: Sizes, url: Callable[[str], str], stack: ExitStack
) -> list[Player | Absent]:
    opened = import_module(f"benchmarks.stores.by_hand_{contest.store}").Hand
    hand = by_hand.player(partial(opened, url("hand")), sizes.tasks, contest.own_connections, stack)
    read = contest.durability or (lambda client: hand.durability)
    mine = ours.blocking(url("onefold"), sizes.tasks, read, stack)
    awaited = ours.awaited(url("awaited"), sizes.tasks, mine.durability, stack)
    return [mine, awaited, hand, *peers.players(contest.store, url, sizes.tasks, hand.durability, stack)]


def _contestant(one: Player | Absent, way: Callable[[Player], Play | None]) -> Contestant | Absent:
    if isinstance(one, Absent):
        return one
    play = way(one)
    return Contestant(one.name, one.durability, play) if play else Absent(one.name, "it has no batches")


def _both(
    contest: Contest, what: str, contestants: Sequence[Contestant | Absent], rounds: Sequence[Keys]
) -> tuple[Table, Table]:
    """Compare with new keys, and with the same ones when all of them are done."""
    asked: list[tuple[str, Effects]] = [("new keys", "each"), ("keys that were done before", "none")]
    new, again = (
        compare(f"{what} on {contest.store}, {keys}", contestants, rounds, effects) for keys, effects in asked
    )
    return new, again


def _batches(
    contest: Contest, sizes: Sizes, players: Sequence[Player | Absent], singles: Table
) -> Iterator[Table]:
    # Peers without batches stand in a table of their own, with their single calls.
    together = [
        _contestant(one, lambda one: one.batch) for one in players if isinstance(one, Player) and one.batch
    ]
    rounds = rounds_of(sizes, sizes.batch, "batch")
    new, again = _both(contest, f"Batches of {sizes.batch:,}", together, rounds)
    if contest.against_hand is not None:
        new.aim("by hand", contest.against_hand)
    yield new
    yield again
    theirs = [row for row in singles.rows if row.contestant in peers.NAMES]
    if any(row.micros_each is not None for row in theirs):
        yield _against_singles(contest, sizes, new, theirs)


def _against_singles(contest: Contest, sizes: Sizes, batches: Table, theirs: Sequence[Any]) -> Table:
    """Set our batches beside the single calls that were measured a moment ago."""
    mine = batches.row("onefold")
    title = f"Our batches of {sizes.batch:,} against the peers' single calls on {contest.store}, new keys"
    table = Table(title, [mine, *(beside(row, mine) for row in theirs)])
    if contest.batches_against_peers is not None:
        table.aim_at_fastest(peers.NAMES, contest.batches_against_peers)
    return table
