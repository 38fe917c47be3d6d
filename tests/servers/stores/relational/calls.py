"""Every kind of call on a store, for tests of what a database reads to answer it."""

from __future__ import annotations

import pytest

from onefold import Key
from onefold.core.entry import Change, Entry, State

KEYS = sorted((Key("few", number) for number in range(3)), key=lambda key: key.id)
WANTED = Entry("done", token="bob")
OPEN: list[State] = ["parked", "held", "free"]

each_call = pytest.mark.parametrize(
    "call",
    [
        {"get": (KEYS,)},
        {"swap": ([Change(key, None, WANTED) for key in KEYS],)},
        {"swap": ([Change(key, 7, WANTED) for key in KEYS],)},
        {"swap": ([Change(key, 7, None) for key in KEYS],)},
        {"scan": (None, OPEN, False, None, 100)},
        {"scan": (None, OPEN, True, None, 100)},
        {"scan": ("few", OPEN, False, None, 100)},
        {"scan": ("few", OPEN, True, None, 100)},
        {"scan": (None, ["done"], False, None, 100)},
    ],
    ids=lambda call: f"{next(iter(call))} {next(iter(call.values()))!r:.40}",
)
