"""A look at what lies in a Redis itself."""

from __future__ import annotations

from typing import Any, cast

import redis


class Server:
    """The server itself, past the store: what lies in it, in plain text."""

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.Redis.from_url(url, decode_responses=True)

    def __enter__(self) -> Any:
        return self.redis

    def __exit__(self, *raised: object) -> None:
        self.redis.close()


def names(client: Any) -> list[str]:
    """Name the keys of a ledger, without the mark of whoever lent the database."""
    return sorted(name for name in cast("list[str]", client.keys("*")) if name.startswith("{"))
