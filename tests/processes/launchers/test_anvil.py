"""The chain node that tests can have: what a kill takes from it, what it keeps, and places in it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.fast.worker.stage import until
from tests.launchers.anvil import Anvil, ask, saved
from tests.launchers.fixtures import OwnServer, launched
from tests.launchers.server import Launched, Missing


def pay(url: str) -> str:
    """Send a transaction, and give its hash once it is mined: a moment after the answer."""
    one, other = ask(url, "eth_accounts")[:2]
    sent = str(ask(url, "eth_sendTransaction", {"from": one, "to": other, "value": "0x1"}))
    anyio.run(until, lambda: receipts(url, sent) != [None])
    return sent


def height(url: str) -> int:
    return int(ask(url, "eth_blockNumber"), 16)


def receipts(url: str, *transactions: str) -> list[Any]:
    return [ask(url, "eth_getTransactionReceipt", one) for one in transactions]


@pytest.fixture
def node(own_server: OwnServer) -> Launched:
    return launched(own_server, "anvil")


@pytest.mark.xdist_group("anvil")
def test_a_node_keeps_what_it_saved_through_a_kill_and_everything_through_a_stop(node):
    url, folder = node.url, node.folder
    first = pay(url), pay(url)
    before = receipts(url, *first)
    anyio.run(until, lambda: saved(folder) == 2)
    node.kill()
    dead = node.pid
    node.restart()
    after_the_kill = height(url), receipts(url, *first)
    last = pay(url)
    node.stop()
    node.restart()
    after_the_stop = height(url), receipts(url, *first)
    whole = receipts(url, last)
    node.close()

    assert dead is None
    assert after_the_kill == (2, before)
    assert after_the_stop == (3, before)
    assert whole[0]["blockNumber"] == "0x3"
    assert not folder.exists()


@pytest.mark.xdist_group("anvil")
def test_a_place_in_a_node_is_set_back_afterwards(anvil_server):
    before = height(anvil_server.url)
    with anvil_server.place() as url:
        paid = pay(url)
        inside = height(url)

    assert inside == before + 1
    assert height(anvil_server.url) == before
    assert receipts(anvil_server.url, paid) == [None]


def test_a_refusal_of_a_node_is_told_with_its_words(anvil_url):
    with pytest.raises(ValueError, match=r"eth_nonsense was refused: .*not found"):
        ask(anvil_url, "eth_nonsense")


def test_a_machine_for_which_no_hash_is_recorded_is_named(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "pdp11")

    with pytest.raises(Missing, match=r"none for .* pdp11 has its hash recorded"):
        Anvil().locate()


def test_a_file_that_is_not_there_or_half_written_has_come_to_no_block(tmp_path):
    nothing = saved(tmp_path)
    (tmp_path / "state.json").write_text('{"best_block_number": 4, "blo')

    assert (nothing, saved(tmp_path)) == (-1, -1)
