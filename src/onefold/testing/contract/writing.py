"""What a store promises about one write: it compares, writes all or nothing, and says what is stored."""

from __future__ import annotations

from msgspec.structs import replace

from onefold.core.entry import BODY_LIMIT, EFFECTS, NOTHING, STATES, Change, Entry
from onefold.core.flow import get, sleep
from onefold.testing.contract.stage import Stage, promise
from onefold.testing.contract.words import (
    LONG,
    SPAN,
    entry,
    in_order,
    key,
    keys,
    look,
    put,
    send,
    stored,
    tell,
    walk,
)

TEXTS = (
    "", "plain", "żółw", "e\u0301 is not é", "日本語", "😀" * 9, '{"zero": "\\u0000"}', "line\nline\ttab\r",
    "'; DROP TABLE onefold_entries; --", '"quoted" \\ back', "%s ? :1 $1 {} #{x}", "\u200b\u202e\ufeff",
    " spaced ",
)  # fmt: skip


@promise
async def an_absent_key_is_nothing(stage: Stage) -> None:
    assert await look(key("absent")) == NOTHING


@promise
async def a_first_write_is_stored(stage: Stage) -> None:
    told = await put(key(1), entry("held", "ann"))

    assert (told.state, told.token) == ("held", "ann")
    assert await stored(key(1)) == told


@promise
async def a_second_insert_is_refused_and_shows_what_is_stored(stage: Stage) -> None:
    first = await put(key(1), entry("held", "ann", body="1"))
    refused = await tell(Change(key(1), None, entry("done", "bob", body="2")))

    assert refused.entry == first
    assert await stored(key(1)) == first


@promise
async def an_expected_version_on_an_absent_key_writes_nothing(stage: Stage) -> None:
    for version in (0, 1, 1_700_000_000_000_000):
        assert await tell(Change(key(1), version, entry())) == NOTHING
    assert await look(key(1)) == NOTHING
    assert await walk(None) == []


@promise
async def the_version_of_a_new_entry_is_the_clock_in_microseconds(stage: Stage) -> None:
    first = await put(key(1), entry())
    assert stage.near(first.version / 1_000_000)
    await sleep(SPAN)
    second = await put(key(2), entry())

    assert stage.near(second.version / 1_000_000)
    assert first.version < second.version < 2**53


@promise
async def a_later_version_is_the_expected_one_plus_one(stage: Stage) -> None:
    now = await put(key(1), entry())
    for _ in range(5):
        await sleep(SPAN / 10)
        later = await put(key(1), entry(), now.version)
        assert later.version == now.version + 1
        now = later


@promise
async def a_stale_version_is_refused(stage: Stage) -> None:
    first = await put(key(1), entry(token="ann"))
    second = await put(key(1), entry(token="ann", body="2"), first.version)
    refused = await tell(Change(key(1), first.version, entry(token="bob")))

    assert refused.entry == second
    assert await stored(key(1)) == second


@promise
async def a_version_from_the_future_is_refused(stage: Stage) -> None:
    first = await put(key(1), entry(token="ann"))
    for ahead in (1, 2, 1_000_000):
        refused = await tell(Change(key(1), first.version + ahead, entry(token="bob")))
        assert refused.entry == first
    assert await stored(key(1)) == first


@promise
async def a_fence_of_nothing_becomes_the_version_of_the_write(stage: Stage) -> None:
    first = await put(key(1), entry(fence=0))
    second = await put(key(1), entry(fence=0), first.version)

    assert first.fence == first.version
    assert second.fence == second.version


@promise
async def a_given_fence_is_kept(stage: Stage) -> None:
    first = await put(key(1), entry())
    renewed = await put(key(1), entry(fence=first.fence), first.version)
    settled = await put(key(1), entry("done", fence=first.fence), renewed.version)

    assert renewed.fence == settled.fence == first.fence


@promise
async def the_version_that_a_caller_writes_into_an_entry_is_ignored(stage: Stage) -> None:
    first = await put(key(1), entry(version=7))
    assert stage.near(first.version / 1_000_000)
    second = await put(key(1), entry(version=1), first.version)

    assert second.version == first.version + 1


@promise
async def every_field_comes_back_as_it_was_written(stage: Stage) -> None:
    wanted = Entry(
        "parked",
        "in-doubt",
        "token",
        0,
        77,
        "keyed",
        None,
        12.5,
        0.0,
        3,
        None,
        None,
        "print",
        "label",
        "source",
        "body",
    )
    told = await put(key(1), wanted)

    assert replace(told, version=0, written=0.0) == wanted
    assert await stored(key(1)) == told


@promise
async def a_settle_writes_its_receipt_and_leaves_the_rest_as_it_is(stage: Stage) -> None:
    for number, body in enumerate(('"receipt"', None)):
        held = entry(
            "held", effect="keyed", lease=12.5, attempt=3, fingerprint="f", source="s", body="record"
        )
        [claimed] = await send([Change(key(number), None, held, begin=True)])
        mine = claimed.entry
        assert mine is not None
        done = replace(mine, state="done", body=body)
        [settled] = await send([Change(key(number), mine.version, done, keep=SPAN, settles=True)])
        told = settled.entry
        assert told is not None
        assert replace(told, version=mine.version, written=mine.written, expires=None) == done
        assert (told.version, told.expires) == (mine.version + 1, told.written + SPAN)
        assert await stored(key(number)) == told


@promise
async def a_settle_on_another_version_writes_nothing(stage: Stage) -> None:
    mine = await put(key(1), entry("held", token="ann", body="record"))
    later = await put(key(1), entry("held", token="bob", fence=mine.fence), mine.version)
    late = replace(mine, state="done", body='"late"')
    asked = [Change(key(1), mine.version, late, settles=True), Change(key(2), 7, late, settles=True)]
    found = await send(in_order(asked))

    assert {seen.entry for seen in found} == {later, None}
    assert [await stored(key(1)), await look(key(2))] == [later, NOTHING]


@promise
async def every_state_reason_and_effect_is_kept(stage: Stage) -> None:
    wanted = [Entry(state, effect=effect) for state in STATES for effect in EFFECTS if state != "parked"]
    wanted += [Entry("parked", why) for why in ("in-doubt", "failed", "by-hand", "beyond-memory")]
    for number, asked in enumerate(wanted):
        told = await put(key(number), asked)
        assert (told.state, told.why) == (asked.state, asked.why)
        assert told.effect == asked.effect
        assert await stored(key(number)) == told


@promise
async def texts_come_back_letter_by_letter(stage: Stage) -> None:
    for text in TEXTS:
        told = await put(
            key(repr(text)), entry(token=text, fingerprint=text, label=text, source=text, body=text)
        )
        assert {told.token, told.fingerprint, told.label, told.source, told.body} == {text}
        assert await stored(key(repr(text))) == told


@promise
async def no_text_is_not_an_empty_text(stage: Stage) -> None:
    none = await put(key("none"), entry(body=None, fingerprint=None))
    empty = await put(key("empty"), entry(body="", fingerprint=""))

    assert (none.body, none.fingerprint) == (None, None)
    assert (empty.body, empty.fingerprint) == ("", "")
    assert [await stored(key("none")), await stored(key("empty"))] == [none, empty]


@promise
async def the_largest_body_fits(stage: Stage) -> None:
    for unit in ("x", "😀"):
        body = unit * (BODY_LIMIT // len(unit.encode()))
        told = await put(key(unit), entry("done", body=body))
        assert told.body == body
        assert await stored(key(unit)) == told


@promise
async def replies_come_in_the_order_asked(stage: Stage) -> None:
    asked = keys(30)
    told = await send([Change(key, None, entry(token=key.label)) for key in asked])
    assert [seen.entry.token for seen in told if seen.entry] == [key.label for key in asked]
    backwards = [*reversed(asked), key("absent")]
    found = await get(backwards)

    assert [seen.entry.token if seen.entry else None for seen in found] == [
        key.label for key in backwards[:-1]
    ] + [None]


@promise
async def in_one_batch_some_win_and_some_lose(stage: Stage) -> None:
    names = keys(12)
    taken = {key: await put(key, entry(token="ann")) for key in names[::3]}
    replies = await send([Change(key, None, entry(token="bob")) for key in names])

    for name, reply in zip(names, replies, strict=True):
        assert reply.entry is not None
        assert reply.entry.token == ("ann" if name in taken else "bob")
        assert await stored(name) == reply.entry
    assert all([await stored(name) == kept for name, kept in taken.items()])


@promise
async def a_batch_may_insert_update_and_remove(stage: Stage) -> None:
    old = await put(key("old"), entry("done"), keep=SPAN)
    held = await put(key("held"), entry("held"))
    await sleep(SPAN * 2)
    batch = in_order(
        [
            Change(key("old"), old.version, None),
            Change(key("held"), held.version, entry("done", body="2")),
            Change(key("new"), None, entry("held", "bob")),
            Change(key("none"), 7, entry("held", "eve")),
        ]
    )
    replies = {change.key: seen for change, seen in zip(batch, await send(batch), strict=True)}

    assert replies[key("old")] == replies[key("none")] == NOTHING
    assert {name: seen.entry for name, seen in replies.items()} == {
        name: (await look(name)).entry for name in replies
    }
    assert (await stored(key("held"))).body == "2"
    assert (await stored(key("new"))).token == "bob"


@promise
async def a_refused_change_writes_nothing_at_all(stage: Stage) -> None:
    first = await put(key(1), entry("held", "ann", body="1", source="s", fingerprint="f"))
    await sleep(SPAN)
    for expected in (None, 0, first.version - 1, first.version + 1):
        thief = entry("parked", "bob", lease=1.0, body="2", fingerprint="g")
        refused = await tell(Change(key(1), expected, thief, begin=True, delay=LONG, keep=LONG))
        assert refused.entry == first
        assert refused.idle >= SPAN * 0.9, "a contender must not make a holder look alive"
    after = await look(key(1))

    assert after.entry == first
    assert after.idle >= SPAN * 0.9
    assert await walk(None, ("parked", "free", "done")) == []
