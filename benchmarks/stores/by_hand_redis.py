"""Redis by hand: a script for a claim and one for its end, a call for each key, batches in a pipeline."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import redis

from benchmarks.ledger.by_hand import SCOPE
from benchmarks.stores.by_hand import LEASE, RECEIPT, Item
from onefold.stores.redis.address import address

CLAIM = f"""
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HMGET', KEYS[1], 'state', 'token', 'body')
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local version, text = string.format('%.0f', now * 1000000), string.format('%.6f', now)
redis.call(
  'HSET', KEYS[1], 'scope', '{SCOPE}', 'state', 'held', 'token', ARGV[2], 'version', version,
  'fence', version, 'effect', 'one-shot', 'begun', text, 'lease', '{LEASE:.0f}', 'written', text,
  'attempt', '1', 'label', ARGV[3], 'source', '')
redis.call('ZADD', KEYS[2], now + {LEASE}, ARGV[1])
return false
"""
SETTLE = """
local state, token = unpack(redis.call('HMGET', KEYS[1], 'state', 'token'))
if state ~= 'held' or token ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'done', 'body', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
"""


class Hand:
    """A client with one connection, and two scripts that its server knows."""

    def __init__(self, url: str) -> None:
        at = address(url)
        self.client = redis.Redis(**at.settings, protocol=2, single_connection_client=True)
        self._prefix = at.prefix
        self._claim: str = self.client.script_load(CLAIM)
        self._settle: str = self.client.script_load(SETTLE)

    @property
    def durability(self) -> str:
        told: dict[Any, Any] = self.client.config_get("append*")
        return ", ".join(f"{name} {told[name]}" for name in ("appendonly", "appendfsync"))

    def claim_one(self, item: Item) -> bool:
        return self.client.evalsha(self._claim, *self._asked(item, item.label)) is None

    def settle_one(self, item: Item) -> bool:
        return bool(self.client.evalsha(self._settle, *self._asked(item, RECEIPT)) == 1)

    def claim(self, items: Sequence[Item]) -> Collection[bytes]:
        asked = [(self._claim, *self._asked(item, item.label)) for item in items]
        return {item.id for item, stored in zip(items, self._many(asked), strict=True) if stored is None}

    def settle(self, items: Sequence[Item]) -> int:
        return sum(self._many([(self._settle, *self._asked(item, RECEIPT)) for item in items]))

    def _asked(self, item: Item, last: str) -> tuple[Any, ...]:
        id, ledger = item.id.hex(), self._prefix
        return 2, f"{{{ledger}}}:entry:{id}", f"{{{ledger}}}:open:held:{SCOPE}", id, item.token, last

    def _many(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for words in asked:
            pipeline.evalsha(*words)
        return pipeline.execute()

    def close(self) -> None:
        self.client.close()
