"""Copytrade on a real node: its subscriptions, receipts, restarts and forks; the order book counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onefold.apps.copytrade.logs import topic
from onefold.worker import Worker
from onefold.worlds.leaders import Deed, Kind
from onefold.worlds.matches import FILLED, MILLION, Fill
from tests.fast.apps.copying import Script, Stage, retractions, settings, stage, worker
from tests.fast.worker.stage import run_until
from tests.launchers.anvil import ask, saved
from tests.launchers.fixtures import OwnServer, ours
from tests.launchers.server import Launched, Server
from tests.servers.apps.onchain import COMPILED, OnChain, kind, outcomes

pytestmark = pytest.mark.xdist_group("anvil")

DEPTH = 4
LATE = "5m"
"""How long a receipt is waited for. History is read once more only after it, so what comes was streamed."""


@pytest.fixture
def node(own_server: OwnServer) -> Server:
    return own_server("anvil")


@pytest.fixture
def chain(node: Server) -> OnChain:
    return OnChain(node.url)


@pytest.fixture
def on() -> Iterator[Stage]:
    with stage(nodes=()) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'onefold.db'}"


def worker_on(chain: OnChain, on: Stage, file: str, *only: str, **more: Any) -> Worker:
    said = settings(
        on,
        leaders=tuple(chain.leaders),
        streams=(chain.url.replace("http", "ws", 1),),
        nodes=(chain.url,),
        contracts=chain.contracts,
        **{"depth": DEPTH, "receipt": LATE, **more},
    )
    return worker(said, file, only)


def fill(chain: OnChain, leader: int = 0, market: int = 0, **more: Any) -> Fill:
    asset = str(outcomes(market)[0])
    return Fill(chain.leaders[leader], asset, "BUY", 100 * MILLION, 50 * MILLION)._replace(**more)


def deed(*fills: Fill, kind: Kind = "trade") -> Deed:
    return Deed(kind, "", fills)


def heard(one: Worker, chain: OnChain) -> Any:
    """Say that the worker listens, and has heard of the last head."""
    source: Any = one.pipelines[0].sources["chain"]
    return lambda: one.ready and source.head == chain.height


def orders(on: Stage) -> dict[tuple[str, str], str]:
    """Tell the size of what was ordered, by asset and side."""
    return {(line["asset"], line["side"]): line["size"] for line in on.orders.journal.of("order")}


# ----- subscriptions and receipts


@pytest.mark.parametrize("listed", [False, True], ids=["chain", "chain-and-list"])
def test_every_trade_on_a_real_node_is_copied_once_and_what_is_none_never(chain, on, file, listed):
    one = worker_on(chain, on, file, *([] if listed else ["chain"]))
    first, other = fill(chain), fill(chain, 1, market=1)
    several = deed(first, first, first._replace(side="SELL"), fill(chain, market=1), other)
    before = [deed(first._replace(era=era, fee=MILLION)) for era in ("V1", "V2")]
    none = [deed(first, kind="split"), deed(first, kind="foreign")]
    both = [deed(other._replace(usdc=48 * MILLION, side=side), kind="mint") for side in ("BUY", "SELL")]
    chain.act(on, *before, listed=listed)  # read from history
    script = Script(
        (lambda: one.ready, lambda: chain.act(on, *none, several, listed=listed)),
        (on.is_through, lambda: chain.act(on, *both, listed=listed)),
        (on.is_through, lambda: chain.act(on, deed(first._replace(era="V1", side="SELL")), listed=listed)),
        (on.is_through, chain.mine),
        (heard(one, chain), lambda: None),
    )
    run_until(one, script)

    assert on.copied() == on.wanted()
    assert on.copied().total() == 2 + 4 + 2 + 1
    assert retractions(file) == []


def test_several_orders_in_one_transaction_of_a_real_node_are_summed_by_asset_and_side(chain, on, file):
    one = worker_on(chain, on, file, "chain")
    first = fill(chain, size=100 * MILLION)
    again = first._replace(size=60 * MILLION, usdc=30 * MILLION)
    sold = fill(chain, market=1, side="SELL", fee=2 * MILLION)
    script = Script(
        (lambda: one.ready, lambda: chain.act(on, deed(first, again, sold))), (on.is_through, lambda: None)
    )
    run_until(one, script)

    assert orders(on) == {(first.asset, "BUY"): "80.00", (sold.asset, "SELL"): "50.00"}  # half of each


# ----- a node that dies


@pytest.fixture
def mortal(node: Server) -> Launched:
    return ours(node)


def backed_up(mortal: Launched, folder: Path) -> int:
    """Copy what a node has written, and say how far the copy has come; -1 if it is of half a file."""
    state = mortal.folder / "state.json"
    if state.exists():
        shutil.copy(state, folder)
    return saved(folder)


def die(mortal: Launched, chain: OnChain, folder: Path) -> None:
    """Kill a node, and start it with a copy: a kill may fall into the writing of its own file."""
    mortal.kill()
    shutil.copy(folder / "state.json", mortal.folder)
    mortal.restart()
    chain.wait_to_mine()


def test_what_a_node_mined_before_the_worker_was_back_is_copied_after_a_kill(
    mortal, chain, on, file, tmp_path
):
    one = worker_on(chain, on, file, "chain")

    def miss() -> None:
        # The worker waits for us meanwhile: what is mined here was streamed to nobody.
        die(mortal, chain, tmp_path)
        chain.act(on, deed(fill(chain, market=1)), deed(fill(chain, 1)))
        chain.mine()

    script = Script(
        (lambda: one.ready, lambda: chain.act(on, deed(fill(chain)))),
        (lambda: on.is_through() and backed_up(mortal, tmp_path) == chain.height, miss),
        (lambda: on.is_through() and one.ready, lambda: chain.act(on, deed(fill(chain, 1, market=1)))),
        *[(on.is_through, chain.mine)] * (DEPTH + 1),
        (heard(one, chain), lambda: None),
    )
    run_until(one, script)

    assert on.copied() == on.wanted()
    assert on.copied().total() == 4
    assert retractions(file) == []


def test_what_a_node_forgot_when_it_died_is_retracted_and_what_it_mined_instead_copied(
    mortal, chain, on, file, tmp_path
):
    one = worker_on(chain, on, file, "chain")
    forgotten: list[str] = []

    def forget() -> None:
        die(mortal, chain, tmp_path)
        chain.act(on, deed(fill(chain, market=1)))

    script = Script(
        (
            lambda: one.ready and backed_up(mortal, tmp_path) == chain.height,
            lambda: forgotten.extend(chain.act(on, deed(fill(chain)))),
        ),
        (on.is_through, chain.mine),
        (heard(one, chain), forget),
        (lambda: on.is_through() and one.ready, chain.mine),
        *[(heard(one, chain), chain.mine)] * (2 * DEPTH),
        (lambda: len(retractions(file)) == 1, lambda: None),
    )
    run_until(one, script)

    assert on.copied() == on.wanted()
    [parked] = retractions(file)
    assert forgotten[0] in (parked.body or "")


# ----- forks


def replaced(chain: OnChain, before: list[Any]) -> None:
    """Replace the last two blocks by empty ones, by the node's own word for it."""
    ask(chain.url, "anvil_reorg", 2, [])


def set_back(chain: OnChain, before: list[Any]) -> None:
    """Set the chain back to what it was, and mine other blocks in the place of the last two."""
    ask(chain.url, "evm_revert", before[0])
    chain.mine()
    chain.mine()


@pytest.mark.parametrize("fork", [replaced, set_back])
def test_a_trade_that_a_fork_of_a_real_node_took_away_is_retracted_once_after_depth_blocks(
    chain, on, file, fork
):
    one = worker_on(chain, on, file, "chain")
    before: list[Any] = []
    gone: list[str] = []
    early: list[Any] = []
    script = Script(
        (lambda: one.ready, lambda: before.append(ask(chain.url, "evm_snapshot"))),
        (lambda: True, lambda: gone.extend(chain.act(on, deed(fill(chain))))),
        (on.is_through, chain.mine),
        (heard(one, chain), lambda: fork(chain, before)),
        *[(heard(one, chain), chain.mine)] * (DEPTH - 2),
        (heard(one, chain), lambda: early.extend(retractions(file))),
        # Too few for one that was missed only when it should have been final.
        *[(heard(one, chain), chain.mine)] * 2,
        (lambda: len(retractions(file)) == 1, lambda: chain.act(on, deed(fill(chain, 1)))),
        *[(on.is_through, chain.mine)] * (DEPTH + 1),
        (heard(one, chain), lambda: None),
    )
    run_until(one, script)

    assert chain.receipt(gone[0]) is None
    assert early == []
    [parked] = retractions(file)
    assert gone[0] in (parked.body or "")
    assert on.copied() == on.wanted()


def test_a_trade_that_a_fork_of_a_real_node_moved_to_another_block_is_still_one(chain, on, file):
    one = worker_on(chain, on, file, "chain")
    moved: list[str] = []
    places: list[tuple[str, str]] = []

    def place() -> None:
        found = chain.receipt(moved[0])
        places.append((found["blockNumber"], found["blockHash"]))

    def move() -> None:
        place()
        raw = ask(chain.url, "eth_getRawTransactionByHash", moved[0])
        ask(chain.url, "anvil_reorg", 2, [[raw, 1]])
        place()

    script = Script(
        (lambda: one.ready, lambda: moved.extend(chain.act(on, deed(fill(chain), fill(chain, 1))))),
        (on.is_through, chain.mine),
        (heard(one, chain), move),
        *[(heard(one, chain), chain.mine)] * (2 * DEPTH + 2),
        (heard(one, chain), lambda: chain.act(on, deed(fill(chain, 1, market=1)))),
        (on.is_through, lambda: None),
    )
    run_until(one, script)

    (was, hash_then), (stands, hash_now) = places
    assert int(stands, 16) == int(was, 16) + 1
    assert hash_then != hash_now
    assert on.copied() == on.wanted()
    assert retractions(file) == []
    assert one.tallies["copytrade"].total("retracted") == 0


# ----- everything at once


class Wild:
    """A chain that is drawn from a seed: trades, empty blocks, and forks that drop or move what they hold.

    Forks are never deeper than what copytrade takes for final.
    """

    def __init__(self, chain: OnChain, on: Stage, seed: int) -> None:
        self._chain, self._on = chain, on
        self._random = Random(seed)

    def steps(self, number: int, one: Worker) -> list[tuple[Any, Any]]:
        drawn: list[tuple[Any, Any]] = []
        for _ in range(number):
            chance = self._random.random()
            calm = pressed(one, self._chain) if self._random.random() < 0.4 else lambda: True
            step = self._fork if chance < 0.25 else self._chain.mine if chance < 0.4 else self._trade
            drawn.append((calm, step))
        return drawn

    def standing(self) -> set[str]:
        """Name the trades that the chain holds now."""
        named = {name: name.split("/")[1] for name in self._on.wanted()}
        kept = {one for one in set(named.values()) if self._chain.receipt(one)}
        return {name for name, transaction in named.items() if transaction in kept}

    def is_copied(self) -> bool:
        return self.standing() <= self._on.copied().keys()

    # ----- what may happen

    def _trade(self) -> None:
        draw = self._random
        first = fill(
            self._chain, draw.randrange(2), draw.randrange(2),
            side=draw.choice(("BUY", "SELL")), era=draw.choice(("V1", "V2")),
        )  # fmt: skip
        more = [first._replace(side="BUY"), first._replace(side="SELL")][: draw.randrange(3)]
        alone = deed(first, kind="mint")
        self._chain.act(self._on, *draw.choice(([deed(first, *more)], [alone], [deed(first), alone])))

    def _fork(self) -> None:
        """Replace the last blocks; the first of their transactions are mined again, the others dropped."""
        depth = self._random.randrange(1, DEPTH)
        held = [one for at in range(depth) for one in self._transactions(self._chain.height - depth + 1 + at)]
        kept = held[: self._random.randrange(len(held) + 1)]
        raw = [ask(self._chain.url, "eth_getRawTransactionByHash", one) for one in kept]
        places = sorted(self._random.randrange(depth) for _ in raw)
        ask(self._chain.url, "anvil_reorg", depth, [*zip(raw, places, strict=True)])

    def _transactions(self, block: int) -> list[str]:
        found: list[str] = ask(self._chain.url, "eth_getBlockByNumber", hex(block), False)["transactions"]
        return found


def pressed(one: Worker, chain: OnChain) -> Any:
    """Say that the worker has heard of the last head; one that it missed is followed by others."""
    is_heard = heard(one, chain)

    def ask_again() -> bool:
        if one.ready and not is_heard():
            chain.mine()
        return bool(is_heard())

    return ask_again


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_what_stands_on_a_wild_chain_is_copied_once_and_what_is_gone_is_retracted(chain, on, file, seed):
    one = worker_on(chain, on, file, "chain", receipt="500ms")
    wild = Wild(chain, on, seed)

    def is_settled() -> bool:
        return wild.is_copied() and len(retractions(file)) == len(on.copied().keys() - wild.standing())

    script = Script(
        (lambda: one.ready, lambda: None),
        *wild.steps(40, one),
        (wild.is_copied, chain.mine),
        *[(pressed(one, chain), chain.mine)] * (3 * DEPTH),
        (is_settled, lambda: None),
    )
    run_until(one, script)

    standing = wild.standing()
    gone = on.copied().keys() - standing
    assert set(on.copied().values()) == {1}
    assert standing
    assert standing <= on.copied().keys()
    assert sorted(named(one) for one in retractions(file)) == sorted(gone)


def named(parked: Any) -> str:
    """Name the trade of which a retraction tells."""
    body = json.loads(parked.body)["record"]["body"]
    return "/".join(body[part] for part in ("leader", "transaction", "asset", "side"))


# ----- our contracts


def test_our_exchange_tells_of_orders_by_the_events_of_both_eras():
    events = [one for one in COMPILED["Exchange"]["abi"] if one["type"] == "event"]
    topics = {topic(f"{one['name']}({','.join(kind(part) for part in one['inputs'])})") for one in events}

    assert topics == set(FILLED.values())
