"""What a store promises about names: keys and scopes that look alike, or like commands, are kept apart."""

from __future__ import annotations

from collections.abc import Callable
from unicodedata import normalize

from onefold.core.entry import Change
from onefold.core.flow import get
from onefold.core.key import Key
from onefold.testing.contract.stage import Stage, promise
from onefold.testing.contract.words import entry, ids, in_order, key, put, send, stored, walk

WORDS = (
    "order", "straße", "İstanbul", "Ångström", "ﬁne", "naïve", "ΣΊΣΥΦΟΣ", "한국어", "अक्षर", "😀", "1", "1.0",
    "01", "+1", "1e0", "null", "None", "true", "NaN", "undefined", "../../etc/passwd", "C:\\temp\\x", "a/b",
    "a:b", "a|b", "a,b", "a;b", "a=b&c=d", "'; DROP TABLE onefold_entries; --", "' OR '1'='1", '"quoted"',
    "`quoted`", "%", "_", "\\", "%s%n", "?", ":1", "$1", "@p0", '{"$gt": ""}', "$where", "a.b", "*",
    "user:*", "FLUSHALL", "\r\nDEL x\r\n", "{tag}", "return redis.call('FLUSHALL')", "]] os.exit() --[[",
    "BEGIN BATCH", "TRUNCATE entries;", "token(id)", "<script>", "&amp;", "${jndi:x}", "#{x}", "{{x}}",
    "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\x7f", "\u202eabc", "\ufeffabc", "a\u200bb", "a\u00adb",
    "\u00a0", "\t", "\n", "\x01",
)  # fmt: skip

SCOPES = (
    "orders", "Orders", "ORDERS", "orders ", " orders", "order", "orders2", "orders/x", "örders",
    normalize("NFD", "örders"), "order%", "order_", "orders*", "order?", "o[r]ders",
    "'; DROP TABLE onefold_entries; --", '"orders"', "{orders}", "$orders", "orders:x", "orders.x",
    "ordersß", "ordersss", "ｏrders",
)  # fmt: skip


# The plainest first: every word is spelled in the first ways before a later way is begun.
SPELLINGS: tuple[Callable[[str], str], ...] = (
    str, str.upper, str.lower, str.swapcase, str.title, str.casefold,
    "{} ".format, " {}".format, "{}\0".format, "\0{}".format, "{}\u200b".format,
    lambda word: normalize("NFC", word + "é"), lambda word: normalize("NFD", word + "é"),
    lambda word: normalize("NFKC", word), lambda word: word + "." * 300, lambda word: word + "." * 301,
    "{}e".format, "{}É".format, "{0}{0}".format, "{0}\0{0}".format, "{}  ".format,
    "{}\n".format, "'{}'".format,
)  # fmt: skip

LONG = "x" * 1_000_000


def hostile_keys(count: int = 1000) -> list[Key]:
    """Make keys that are pairwise different and that careless stores confuse, or take for commands."""
    parts = [(LONG,), (LONG + "x",), (LONG[1:] + "y",), ("a", "b"), ("a", "b", "c"), ("a", "b/c")]
    texts = dict.fromkeys(spell(word) for spell in SPELLINGS for word in WORDS)
    return [Key("hostile", *each) for each in [*parts, *((text,) for text in texts)][:count]]


@promise
async def a_thousand_hostile_keys_are_a_thousand_entries(stage: Stage) -> None:
    names = hostile_keys()
    batch = in_order(Change(name, None, entry(token=f"t{number}")) for number, name in enumerate(names))
    replies = await send(batch)
    found = await get(names)

    assert len({name.id for name in names}) == 1000
    assert [seen.entry.token for seen in replies if seen.entry] == [
        change.entry.token for change in batch if change.entry
    ]
    assert [seen.entry.token for seen in found if seen.entry] == [f"t{number}" for number in range(1000)]
    assert ids(await walk("hostile", ("held",), limit=300)) == sorted(name.id for name in names)


@promise
async def the_same_parts_in_two_scopes_are_two_keys(stage: Stage) -> None:
    mine = await put(key("A-17", scope="mine"), entry(token="ann"))
    yours = await put(key("A-17", scope="yours"), entry(token="bob"))

    assert await stored(key("A-17", scope="mine")) == mine
    assert await stored(key("A-17", scope="yours")) == yours


@promise
async def scopes_that_look_alike_are_kept_apart(stage: Stage) -> None:
    for state in ("held", "done"):
        for scope in SCOPES:
            await put(Key(scope, state), entry(state, token=scope))
    for scope in SCOPES:
        found = await walk(scope)
        assert ids(found) == sorted([Key(scope, "held").id, Key(scope, "done").id])
        assert {name.scope for name, _ in found} == {scope}
        assert {seen.entry.token for _, seen in found if seen.entry} == {scope}
