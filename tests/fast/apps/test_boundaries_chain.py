"""What a chain node answers, mutated from seeds: nothing raises, no other log is lost, nothing foreign acts.

To replay a failure, call `page(rows, SEED, …)` with the seed that the failure names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import anyio
import pytest

from onefold.apps.copytrade import answers
from onefold.apps.copytrade.answers import Block
from onefold.apps.copytrade.chain import JUMP, ChainTrades, Reading
from onefold.apps.copytrade.leaders import Leaders
from onefold.apps.copytrade.logs import Contracts, Filter, filters, matches, stamp, trades
from onefold.apps.copytrade.rpc import NodeError, Rpc, facts
from onefold.apps.copytrade.trades import Trade
from onefold.core.record import Broken, Page, Record
from onefold.core.wire import Unreadable
from onefold.drive import AsyncPorts, Inline
from onefold.sources.websocket import Disconnected
from onefold.stores.memory import MemoryStore
from onefold.worker.settings import Live
from onefold.worlds.chain import Chain, Transaction
from onefold.worlds.leaders import LEADERS
from onefold.worlds.matches import MILLION, SOMEBODY, Fill, match
from tests import mutations
from tests.checkout import FIXTURES
from tests.mutations import pages

RECORDED = FIXTURES / "polygon_chain"

CONTRACTS = Contracts()
FOREIGN = "0x" + "77" * 20
OTHER = "0x" + "99" * 32


class Sample(NamedTuple):
    """Logs, receipts and heads of a node, and whose trades are in them."""

    leaders: frozenset[str]
    logs: list[dict[str, Any]]
    """Orders of leaders."""
    receipts: list[dict[str, Any]]
    heads: list[dict[str, Any]]

    @property
    def filters(self) -> list[Filter]:
        return filters(sorted(self.leaders), CONTRACTS)

    @property
    def span(self) -> tuple[int, int]:
        numbers = [int(one["blockNumber"], 16) for one in self.logs]
        return min(numbers), max(numbers)

    def traded(self, receipt: dict[str, Any]) -> list[Trade]:
        return trades(receipt, self.leaders, CONTRACTS, 0)[0]


def own() -> Sample:
    """Let three leaders trade: by all exchanges, two orders of one asset, both sides."""
    chain = Chain(clock=lambda: 1_790_000_000)
    orders = [
        (Fill(LEADERS[0], "5", "BUY", 100 * MILLION, 50 * MILLION),) * 2,
        (Fill(LEADERS[1], "6", "SELL", 30 * MILLION, 10 * MILLION, era="V1"),),
        (
            Fill(LEADERS[2], "7", "BUY", 8 * MILLION, 2 * MILLION, era="V3"),
            Fill(LEADERS[0], "8", "SELL", 9 * MILLION, 3 * MILLION),
        ),
    ]
    for number, fills in enumerate(orders, 1):
        chain.mine(Transaction(f"0x{number:064x}", match(fills, number)))
    blocks = chain.blocks[1:]
    receipts = [block.receipt(block.transactions[0].hash) or {} for block in blocks]
    for one in receipts:  # the first log of a receipt is the one that is mutated: let it be an order
        one["logs"].sort(key=lambda log: not matches(log, filters(LEADERS, CONTRACTS)[0]))
    logs = [log for block in blocks for log in block.logs() if matches(log, filters(LEADERS, CONTRACTS)[0])]
    return Sample(frozenset(LEADERS), logs, receipts, [block.header() for block in blocks])


def recorded() -> Sample:
    """Read what was recorded; heads and receipts are put together from the logs, which name them."""
    if not RECORDED.exists():
        pytest.skip("the recorded data is not here")
    shown = json.loads((RECORDED / "v2_order_filled_logs.json").read_text())
    logs = [one["log"] for one in shown]
    by_transaction: dict[str, list[dict[str, Any]]] = {}
    for log in logs:
        by_transaction.setdefault(log["transactionHash"], []).append(log)
    names = ("transactionHash", "blockNumber", "blockHash")
    receipts = [
        {**{name: own[0][name] for name in names}, "status": "0x1", "logs": own}
        for own in by_transaction.values()
    ]
    receipts.append(json.loads((RECORDED / "receipt_ctf_batch_burn_2021.json").read_text())["result"])
    heads = [
        {
            "number": one["blockNumber"],
            "hash": one["blockHash"],
            "parentHash": OTHER,
            "timestamp": "0x6a772e03",
        }
        for one in receipts
    ]
    return Sample(frozenset(one["expected"]["owner"] for one in shown), logs, receipts, heads)


@pytest.fixture(params=[own, recorded], ids=["own", "recorded"], scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    made: Callable[[], Sample] = request.param
    return made()


def answered(text: str) -> str:
    return f'{{"jsonrpc":"2.0","id":1,"result":{text}}}'


# ----- eth_getLogs


def test_a_mutated_log_is_set_aside_on_its_own_and_the_others_arrive(sample, count):
    wanted, (since, until) = sample.filters[0], sample.span
    owners = {
        "address": FOREIGN,
        "topics": [*sample.logs[0]["topics"][:2], OTHER, OTHER],
        "blockNumber": hex(until + 1),
    }
    set_aside, loads = 0, cache(json.loads)
    for page in pages(sample.logs, owners=owners, count=count):
        shown = answers.result(answered(page.text), "eth_getLogs", 1)
        found, broken = answers.logs(shown, wanted, since, until)

        said = f"seed {page.seed}: {page.how}"
        whole = [loads(row) for at, row in enumerate(page.rows) if at != page.spoiled]
        arrived = [one.body["log"] for one in found]
        assert len(found) + len(broken) == len(page.rows), said
        assert all(one in arrived for one in whole), said
        assert all(matches(one, wanted) for one in arrived), said
        assert all(since <= one.at <= until for one in found), said
        if "somebody else" in page.how and ";" not in page.how:
            assert len(broken) == 1, said
        set_aside += len(broken)

    assert set_aside > count / 2


# ----- receipts


def test_a_mutated_receipt_raises_nothing_and_makes_no_trade_that_did_not_happen(sample, count):
    true = {one["transactionHash"]: sample.traded(one) for one in sample.receipts}
    assert sum(map(len, true.values())) >= 3
    refused = unread = 0

    @cache  # most rows of all pages are the same few
    def read(text: str, transaction: str) -> tuple[list[Trade], list[Broken], int | None] | None:
        try:
            receipt = answers.receipt(answers.result(answered(text), "receipt", 1), transaction)
        except ValueError:
            return None
        return (*trades(receipt, sample.leaders, CONTRACTS, 0), stamp(receipt))

    for page in pages(sample.receipts, owners={"transactionHash": OTHER}, count=count):
        asked = _asked(sample.receipts, page)
        for at, (text, transaction) in enumerate(zip(page.rows, asked, strict=True)):
            said = f"seed {page.seed}: {page.how}"
            shown = read(text, transaction)
            if shown is None:
                assert at == page.spoiled, said
                refused += 1
                continue
            found, broken, time = shown
            unread += len(broken)
            assert time is None or 0 <= time < 2**40, said
            if at == page.spoiled:
                # A sum without one of its orders would be another trade.
                assert all(one._replace(block=None) in _plain(true[transaction]) for one in found), said
            else:
                assert (found, broken) == (true[transaction], []), said

    assert refused > count / 4
    assert unread > 0


def _asked(receipts: Sequence[dict[str, Any]], page: mutations.Page) -> list[str]:
    """Name the transactions that a page's receipts were asked for by, also of the mutated one."""
    names = [one["transactionHash"] for one in receipts]
    known = [at for at in range(len(page.rows)) if at != page.spoiled]
    first = names.index(json.loads(page.rows[known[0]])["transactionHash"]) - known[0]
    return [names[(first + at) % len(names)] for at in range(len(page.rows))]


def _plain(found: Sequence[Trade]) -> list[Trade]:
    return [one._replace(block=None) for one in found]


@pytest.mark.parametrize("data", [None, 7, [], "0x", "zz"])
def test_a_receipt_with_null_data_does_not_raise(data):
    sample = own()
    receipt = json.loads(json.dumps(sample.receipts[2]))
    whole = sample.traded(receipt)
    mine = [log for log in receipt["logs"] if matches(log, sample.filters[0])]
    mine[0]["data"] = data

    found, broken = trades(receipt, sample.leaders, CONTRACTS, 0)

    # The order of one leader cannot be read; the other leader's trade in the same transaction is sure.
    assert len(whole) == 2
    assert found == [one for one in whole if one.leader != "0x" + mine[0]["topics"][2][-40:]]
    assert len(broken) == 1


def test_null_data_of_what_is_no_order_of_a_leader_does_not_matter():
    sample = own()
    receipt = json.loads(json.dumps(sample.receipts[0]))
    for log in receipt["logs"]:
        if not matches(log, sample.filters[0]):
            log["data"] = None

    assert trades(receipt, sample.leaders, CONTRACTS, 0) == (sample.traded(sample.receipts[0]), [])


def test_a_log_that_a_receipt_shows_twice_is_counted_once():
    sample = own()
    receipt = sample.receipts[0]
    twice = {**receipt, "logs": [*receipt["logs"], *receipt["logs"]]}

    assert trades(twice, sample.leaders, CONTRACTS, 0) == (sample.traded(receipt), [])


def test_two_orders_in_one_place_or_of_another_transaction_make_no_trade():
    sample = own()
    receipt = json.loads(json.dumps(sample.receipts[0]))
    first, second = [log for log in receipt["logs"] if matches(log, sample.filters[0])]

    same = {**receipt, "logs": [first, {**second, "logIndex": first["logIndex"]}]}
    moved = {**receipt, "logs": [first, {**second, "transactionHash": OTHER}]}

    for one in (same, moved):
        found, broken = trades(one, sample.leaders, CONTRACTS, 0)
        assert (found, len(broken)) == ([], 1)


# ----- messages of a stream


def messages(sample: Sample) -> list[dict[str, Any]]:
    """Put logs and heads into frames of a subscription."""
    shown = [*sample.logs, *({**one, "removed": True} for one in sample.logs), *sample.heads]
    return [
        {"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": "0x1", "result": one}}
        for one in shown
    ]


def test_a_mutated_message_is_set_aside_and_ends_no_connection(sample, count):
    wanted, refused = sample.filters, 0
    parse = cache(lambda text: answers.parse(text, 137, wanted))
    for page in pages(messages(sample), count=count):
        said = f"seed {page.seed}: {page.how}"
        for at, text in enumerate(page.rows):
            try:
                found = parse(text)
            except Disconnected:
                pytest.fail(f"{said}: it ended the connection")
            except (ValueError, Unreadable):
                assert at == page.spoiled, said
                refused += 1
                continue
            assert at == page.spoiled or found is not None, said
            if found is not None and "log" in found.body:
                assert any(matches(found.body["log"], one) for one in wanted), said

    assert refused > count / 4


def test_recorded_frames_survive_every_mutation(count):
    if not RECORDED.exists():
        pytest.skip("the recorded data is not here")
    frames = json.loads((RECORDED / "eth_subscribe_session.json").read_text())["frames"]
    heard = [one["msg"] for one in frames if one["dir"] == "in"]
    for page in pages(heard, count=count):
        for at, text in enumerate(page.rows):
            try:
                answers.parse(text, 137)
                answers.confirms(text)
            except (ValueError, Unreadable):
                assert at == page.spoiled, f"seed {page.seed}: {page.how}"


def test_a_refused_subscription_and_a_stream_of_another_chain_end_the_connection():
    with pytest.raises(Disconnected, match="refused"):
        answers.parse('{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"too many"}}')
    with pytest.raises(Disconnected, match="serves chain 1, and 137"):
        answers.parse('{"jsonrpc":"2.0","id":0,"result":"0x1"}', 137)
    assert answers.parse('{"jsonrpc":"2.0","id":0,"result":"0x89"}', 137) is None
    assert answers.parse('{"jsonrpc":"2.0","id":1,"result":"0x1"}', 137) is None, "a subscription's name"


# ----- blocks, and what holds an answer


def test_a_mutated_block_or_answer_is_refused_and_raises_nothing_else(sample, count):
    rows = [{"jsonrpc": "2.0", "id": 1, "result": one} for one in sample.heads]
    numbers = {int(one["number"], 16) for one in sample.heads}
    believed = 0
    for page in pages(rows, owners={"id": 2}, count=count):
        said = f"seed {page.seed}: {page.how}"
        for at, text in enumerate(page.rows):
            try:
                shown = answers.result(text, "eth_getBlockByNumber", 1)
                block, time = answers.block(shown)
            except (ValueError, Unreadable):
                assert at == page.spoiled, said
                continue
            believed += 1
            assert at == page.spoiled or block.number in numbers, said
            assert 0 <= time < 2**53, said
            with pytest.raises(ValueError, match="was asked for"):
                answers.block(shown, block.number + 1)

    assert believed > count


@pytest.mark.parametrize("latest", [None, 7, [], {}, {"number": "0x1", "timestamp": None, "hash": OTHER}])
def test_a_node_whose_word_of_itself_cannot_be_read_is_no_node(latest):
    with pytest.raises(NodeError, match="cannot be read"):
        facts("0x89", latest)


# ----- the whole source, over answers that are mutated

LEAST, SHARE = 300, 5
"""The whole source reads a fifth of the pages, but so many in every run: it takes longer than its parsers."""


def share(count: int) -> int:
    """Return how many pages the whole source reads."""
    return max(LEAST, count // SHARE)


class Pool:
    """Two addresses; whoever is told of trouble gives the other."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def pick(self) -> str:
        return f"http://node-{len(self.told) % 2}"

    async def tell(self, url: str, error: str | None) -> None:
        self.told.append(error or "")


class Answers:
    """Answers from texts: those of the first node may be mutated, those of the second are whole."""

    def __init__(self, sample: Sample, chain: str = "0x89") -> None:
        self.mutated: dict[str, str] = {}
        self.both = False
        self._chain = chain
        self._whole = {one["transactionHash"]: json.dumps(one) for one in sample.receipts}
        self._heads = {one["number"]: json.dumps(one) for one in sample.heads}

    async def post(self, url: str, body: bytes) -> bytes:
        asked = json.loads(body)
        return answered(self._result(url, asked["method"], asked["params"])).encode()

    def _result(self, url: str, method: str, params: list[Any]) -> str:
        match method:
            case "eth_chainId":
                return f'"{self._chain}"'
            case "eth_getTransactionReceipt" if params[0] in self.mutated and (self.both or "node-0" in url):
                return self.mutated[params[0]]
            case "eth_getTransactionReceipt":
                return self._whole[params[0]]
            case "eth_getBlockByNumber":
                return self._heads.get(params[0], "null")
        return '"0x1"'

    async def aclose(self) -> None:
        """Nothing is open."""


async def source(sample: Sample, posts: Answers) -> ChainTrades:
    live = Live("copytrade.")
    await live.attend(AsyncPorts(Inline(MemoryStore())))
    pool = Pool()
    how = Reading(depth=4, back=10, span=10, patience=0.0, silence=1.0, sweep=1.0)
    made = ChainTrades(
        Leaders(sorted(sample.leaders), live), CONTRACTS, pool, Rpc(pool, 137, posts), live, how, 137
    )
    made.follow(sample.leaders)
    return made


def announced(sample: Sample) -> Page:
    """Announce every receipt by its first log."""
    records: list[Record] = []
    for one in sample.receipts:
        log = {**one["logs"][0], "blockHash": one["blockHash"]}
        records.append(
            Record(one["transactionHash"], {"log": log, "asked": True}, int(one["blockNumber"], 16))
        )
    return Page(records)


@pytest.mark.parametrize("both", [False, True], ids=["one-node", "all-nodes"])
def test_a_page_of_receipts_survives_a_mutated_one(sample, both, count):
    true = {one.parts for receipt in sample.receipts for one in sample.traded(receipt)}

    async def read() -> Iterator[tuple[mutations.Page, str, Page]]:
        found = []
        for page in pages(sample.receipts, owners={"transactionHash": OTHER}, count=share(count)):
            posts = Answers(sample)
            posts.both = both
            transaction = _asked(sample.receipts, page)[page.spoiled]
            posts.mutated = {transaction: page.rows[page.spoiled]}
            made = await source(sample, posts)
            try:
                found.append((page, transaction, await made.translated(announced(sample))))
            except Disconnected:
                # Only a receipt that is not there, or its block, is waited for by another connection.
                assert page.rows[page.spoiled] == "null" or both, f"seed {page.seed}: {page.how}"
        return iter(found)

    seen = 0
    for page, transaction, shown in anyio.run(read):
        said = f"seed {page.seed}: {page.how}"
        parts = {tuple(one.id.split("/")) for one in shown.records}
        assert parts <= true, said
        assert parts >= {one for one in true if one[1] != transaction}, said
        if not both:
            assert parts == true, f"{said}: the other node shows it whole"
        seen += 1
    assert seen > share(count) * 5 / 6


def far_away(receipt: dict[str, Any]) -> dict[str, Any]:
    return {**receipt, "blockNumber": hex(int(receipt["blockNumber"], 16) + 2 * JUMP)}


def of_the_future(receipt: dict[str, Any]) -> dict[str, Any]:
    return {**receipt, "logs": [{**log, "blockTimestamp": hex(2**40 - 1)} for log in receipt["logs"]]}


@pytest.mark.parametrize("wrong", [far_away, of_the_future])
def test_a_receipt_of_a_block_that_cannot_be_is_asked_of_another_node(wrong):
    sample = own()
    true = {one.parts for receipt in sample.receipts for one in sample.traded(receipt)}
    posts = Answers(sample)
    posts.mutated = {one["transactionHash"]: json.dumps(wrong(one)) for one in sample.receipts[:1]}

    async def read() -> Page:
        made = await source(sample, posts)
        return await made.translated(announced(sample))

    shown = anyio.run(read)

    assert {tuple(one.id.split("/")) for one in shown.records} == true
    assert shown.broken == []


def test_a_mutated_head_or_log_does_not_keep_the_source_from_the_next_trades(sample, count):
    async def read() -> None:
        for page in pages(messages(sample), count=share(count)):
            said = f"seed {page.seed}: {page.how}"
            made = await source(sample, Answers(sample))
            for text in page.rows:
                try:
                    record = answers.parse(text, 137, sample.filters)
                except (ValueError, Unreadable):
                    continue
                if record is not None and "head" in record.body:
                    await made.translated(Page([record]))
            assert made.head < 2**53, said
            shown = await made.translated(announced(sample))
            whole = {one.parts for receipt in sample.receipts for one in sample.traded(receipt)}
            assert {tuple(one.id.split("/")) for one in shown.records} >= whole, said

    anyio.run(read)


def test_a_node_of_another_chain_is_asked_nothing_else():
    sample = own()

    async def ask() -> None:
        pool = Pool()
        rpc = Rpc(pool, 137, Answers(sample, chain="0x1"))
        with pytest.raises(NodeError, match="serves chain 1, and 137 is wanted"):
            await rpc.receipt(sample.receipts[0]["transactionHash"], Block(1, ""), 0.0, lambda _: True)
        assert pool.told == ["it serves chain 1, and 137 is wanted"]

    anyio.run(ask)


def test_what_was_set_aside_is_not_counted_again_with_the_next_sweep():
    sample = own()

    async def read() -> list[int]:
        made = await source(sample, Answers(sample))
        broken = [Broken("a log", "it is no log that was asked for")]
        return [len((await made.translated(Page([], broken=broken))).broken) for _ in range(2)]

    assert anyio.run(read) == [1, 0]


def test_somebody_elses_order_is_no_trade():
    sample = own()

    assert trades(sample.receipts[0], {SOMEBODY}, CONTRACTS, 0)[0] != sample.traded(sample.receipts[0])
    assert trades(sample.receipts[0], {FOREIGN}, CONTRACTS, 0) == ([], [])
