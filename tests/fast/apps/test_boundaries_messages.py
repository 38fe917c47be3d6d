"""Messages survives any signal line and any row of an imported table; the others are sent and moved.

A failing test names its seed; `lines(SEED)` or `mutations.page(ITEMS, SEED)` gives the same page again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from onefold.apps.messages import Settings, pipelines
from onefold.apps.messages.moving import Terms, exported, memory, remembered, signal
from onefold.apps.messages.pipeline import filled
from onefold.core.errors import Rejected
from onefold.core.record import Record
from onefold.drive import Inline, Ports, run
from onefold.stores.memory import MemoryStore
from onefold.worker import Worker
from onefold.worker.file import File
from onefold.worker.moving import Memory, write
from onefold.worker.settings import Live
from tests import mutations

NOW = 1_700_000_000.0
MS = int(NOW * 1000)

TAKEN: list[dict[str, Any]] = []


def take(body: dict[str, Any]) -> None:
    """Send a signal: the function that the settings name."""
    TAKEN.append(body)


def lines(seed: int) -> mutations.Page:
    """Give the lines of a seed; ids of their own, so that no signal is the repeat of another page's."""
    rows = [
        {
            "id": f"{seed}-{number}",
            "to": "ann@example.org",
            "subject": "Hello",
            "buyer": {"name": "Ann", "age": 30 + number},
            "items": [{"name": "tea", "price": 4.5}],
            "at": MS + number,
        }
        for number in range(2)
    ]
    return mutations.page(rows, seed)


def test_mutated_lines_cost_no_other_signal_and_nothing_is_sent_without_an_id(tmp_path: Path, count: int):
    pages = [lines(seed) for seed in range(count)]
    file = tmp_path / "signals.jsonl"
    file.write_text("".join(f"{row}\n" for page in pages for row in page.rows))
    said = Settings(processor="p", signals=File(str(file)), function=f"{__name__}:take", effect="idempotent")
    store = MemoryStore()
    TAKEN.clear()

    worker = Worker([pipelines(said, Live("messages."))], store=Inline(store))
    worker.run()

    sent = Counter(str(body["id"]) for body in TAKEN)
    by_id = {str(body["id"]): body for body in TAKEN}
    for page in pages:
        for row in (json.loads(row) for at, row in enumerate(page.rows) if at != page.spoiled):
            assert by_id.get(row["id"]) == row, f"seed {page.seed}: {page.how}"
            assert sent[row["id"]] == 1, f"seed {page.seed}: {page.how}"
    counts = worker.tallies["messages"].counts
    broken = sum(number for (fate, _), number in counts.items() if fate == "broken")
    repeated = sum(number for (fate, _), number in counts.items() if fate == "duplicate")
    # Every line is accounted for: sent, or set aside, or the repeat of an id like "0".
    assert len(TAKEN) + broken + repeated == 2 * count
    assert all(isinstance(body["id"], str | int) and body["id"] != "" for body in TAKEN)


def test_a_text_for_mutated_signals_is_filled_or_refused(count):
    templates = ("{to}", "{subject}", "{buyer.name} {buyer.age}", "{items.name}")
    for seed in range(count):
        page = lines(seed)
        try:
            told(page, templates)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {page.how}") from error


def told(page: mutations.Page, templates: tuple[str, ...]) -> None:
    for row in page.rows:
        for template in templates:
            try:
                assert isinstance(filled(template, Record("x", json.loads(row), 0)), str)
            except Rejected:
                continue


# ----- the table of Mnemosyne

PLAIN: list[dict[str, Any]] = [
    {
        "id": f"s{number}",
        "processorId": "mailer",
        "startedAt": MS - 9000,
        **({"completedAt": MS - 5000, "result": {"sent": [number]}} if number % 2 else {}),
        "expiresOn": int(NOW) + 60 * (number % 3 - 1),
    }
    for number in range(12)
]


def typed(value: Any) -> dict[str, Any]:
    """Write a value as DynamoDB does."""
    match value:
        case str():
            return {"S": value}
        case dict():
            return {"M": {name: typed(one) for name, one in value.items()}}
        case list():
            return {"L": [typed(one) for one in value]}
        case _:
            return {"N": str(value)}


TYPED = [{name: typed(value) for name, value in item.items()} for item in PLAIN]


@pytest.mark.parametrize("items", [PLAIN, TYPED], ids=["as boto3", "as DynamoDB"])
def test_mutated_items_cost_no_other_item_and_none_is_done_without_a_sign(items, count):
    others = {"processorId": {"S": "other"}} if items is TYPED else {"processorId": "other"}
    both = (Terms("one-shot"), Terms("idempotent"))
    expected = [{json.dumps(item): memory(signal(item), terms, NOW) for item in items} for terms in both]
    for page in mutations.pages(items, owners=others, count=count):
        try:
            moved(page, both[page.seed % 2], expected[page.seed % 2])
        except Exception as error:
            raise AssertionError(f"seed {page.seed}: {page.how}") from error


def moved(page: mutations.Page, terms: Terms, expected: Mapping[str, Memory | None]) -> None:
    found = list(exported(f'{{"Items": {page.text}}}'))
    memories, refused = remembered(found, terms, NOW)
    rows = [json.dumps(json.loads(row)) for at, row in enumerate(page.rows) if at != page.spoiled]
    intact = [expected[row] for row in rows]

    assert len(memories) + len(refused) == len(page.rows)
    assert [one for one in memories if one in intact][:2] == intact
    [spoiled] = [one for one in memories if one not in intact] or [None]
    if spoiled and spoiled.fate == "done":
        item = found[page.spoiled]
        assert any(item.get(name) not in (None, {"NULL": True}) for name in ("completedAt", "result"))
    if page.how == "processorId of somebody else":
        assert spoiled is not None
        assert spoiled.key.label.startswith("other/")
    run(write([one for one in memories if one]), Ports(MemoryStore()))
