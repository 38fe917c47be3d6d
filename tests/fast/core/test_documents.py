"""Documents: small named texts that are changed by swaps, listed by an index, and never claimed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from onefold.core.claims import Bid
from onefold.core.documents import PAGE, Document, listed, load, named, save
from onefold.core.entry import UNKNOWN, Change, Entry, Reply
from onefold.core.errors import Unreachable
from onefold.core.key import Key
from onefold.core.protocol import claim, set_aside
from onefold.core.terms import Terms
from onefold.drive import Ports, run
from onefold.stores.memory import MemoryStore

KEY = named("cursors", "whales", "trades")


class Silent(MemoryStore):
    """Writes, and never says so."""

    def swap(self, changes: Sequence[Change]) -> Sequence[Reply]:
        super().swap(changes)
        return [UNKNOWN] * len(changes)


class Still:
    """A clock on which every pause is over at once."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        pass


def test_a_document_is_written_read_and_changed():
    ports = Ports(MemoryStore())

    assert run(load([KEY]), ports) == [None]
    written = run(save(KEY, "t1", lambda stands: {"at": 1}), ports)
    changed = run(save(KEY, "t2", lambda stands: {"at": stands["at"] + 1}), ports)

    assert isinstance(written, Document)
    assert isinstance(changed, Document)
    assert changed.version == written.version + 1
    assert run(load([KEY]), ports)[0] == changed
    assert changed.value == {"at": 2}


def test_a_change_that_wants_nothing_leaves_what_stands():
    ports = Ports(MemoryStore())
    assert run(save(KEY, "t1", lambda stands: None), ports) is None

    first = run(save(KEY, "t2", lambda stands: {"at": 1}), ports)

    assert run(save(KEY, "t3", lambda stands: None), ports) == first


def test_a_change_is_asked_anew_when_somebody_else_wrote_meanwhile():
    ports = Ports(MemoryStore())
    asked: list[Any] = []

    def change(stands: Any) -> Any:
        asked.append(stands)
        if len(asked) == 1:
            run(save(KEY, "other", lambda _: {"at": 10}), ports)
        return {"at": max(5, stands["at"] if stands else 0)}

    document = run(save(KEY, "mine", change), ports)

    assert asked == [None, {"at": 10}]
    assert document is not None
    assert document.value == {"at": 10}


def test_an_unanswered_change_is_said_to_be_unknown():
    with pytest.raises(Unreachable, match="may have been"):
        run(save(KEY, "t", lambda stands: {"at": 1}), Ports(Silent(), Still()))


def _numbered(number: int, stands: Any) -> dict[str, int]:
    return {"n": number}


def test_documents_of_a_kind_are_listed_in_order_and_others_are_not():
    ports = Ports(MemoryStore())
    for number in range(PAGE + 5):
        run(save(named("gaps", f"{number:05}"), f"t{number}", partial(_numbered, number)), ports)
    run(save(KEY, "t", lambda stands: {"at": 1}), ports)

    assert [text.value["n"] for _, text in run(listed("gaps"), ports)] == list(range(PAGE + 5))
    assert run(listed("settings"), ports) == []


def test_an_entry_without_a_text_is_no_document():
    store = MemoryStore()
    store.swap([Change(KEY, None, Entry("free"))])

    assert run(load([KEY]), Ports(store)) == [None]
    assert run(listed("cursors"), Ports(store)) == []


def test_what_nobody_may_try_is_parked_and_what_stands_already_is_left():
    ports = Ports(MemoryStore())
    terms = Terms()
    known, new = Bid(Key("s", "known"), "a", terms), Bid(Key("s", "new"), "b", terms, body='"raw"')
    run(claim([known]), ports)

    left, parked = run(set_aside([replace(known, token="c"), new], "failed"), ports)

    assert left.entry is not None
    assert (left.entry.state, left.entry.token) == ("held", "a")
    assert parked.entry is not None
    assert (parked.entry.state, parked.entry.why, parked.entry.body) == ("parked", "failed", '"raw"')
