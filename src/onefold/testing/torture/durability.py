"""Kill a server under its writers, bring it back, and count what it had acknowledged and lost: per setting.

Reported for every setting, so that the word of `onefold doctor` can be held against it. A killed process is
not a power cut: what the operating system has taken over survives it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from typing import NamedTuple

from onefold import Key, Ledger, Terms
from onefold.core.entry import Seen
from onefold.core.errors import OnefoldError
from onefold.core.ports import Store
from onefold.stores import connect
from onefold.testing.torture.places import place

TERMS = Terms(lease=3600)
WRITERS = 4
ENOUGH = 200
"""Claims that are acknowledged before the server is killed."""


class Setting(NamedTuple):
    """One way to run a server."""

    name: str
    url: Callable[[str], str] = lambda url: url
    """Says so in the URL."""
    change: Callable[[str], object] = lambda url: None
    """Says so to the server itself."""


class Losses(NamedTuple):
    """What one setting lost."""

    setting: str
    kills: int
    acknowledged: int
    lost: int

    def __str__(self) -> str:
        return f"{self.setting}: {self.kills} kills, {self.acknowledged} acknowledged, lost {self.lost}"


def durability(
    scheme: str, url: str, kills: int, restart: Callable[[], None], progress: Callable[[int], None]
) -> list[Losses]:
    """Go through the settings of a store."""
    return [_one(scheme, setting, url, kills, restart, progress) for setting in settings(scheme)]


def _one(
    scheme: str,
    setting: Setting,
    url: str,
    kills: int,
    restart: Callable[[], None],
    progress: Callable[[int], None],
) -> Losses:
    where, numbers = setting.url(url), count()
    acknowledged: list[Key] = []
    with place(scheme).lend(url):
        # Made by the plain URL: a killed server must lose entries, not the tables that they are in.
        with closing(connect(url)) as store:
            store.get([])
        for kill in range(kills):
            setting.change(where)
            _write_and_kill(where, f"{setting.name} {kill}", numbers, acknowledged, restart)
            progress(kill + 1)
        with closing(connect(where)) as store:
            lost = sum(seen.entry is None for seen in _read(store, acknowledged))
    return Losses(setting.name, kills, len(acknowledged), lost)


def _write_and_kill(
    url: str, name: str, numbers: count[int], acknowledged: list[Key], restart: Callable[[], None]
) -> None:
    stop, enough = threading.Event(), threading.Event()
    before = len(acknowledged)

    def write() -> None:
        with closing(Ledger(url)) as ledger:
            while not stop.is_set():
                key = Key("durability", name, next(numbers))
                try:
                    ledger.claim(key, terms=TERMS)
                except OnefoldError:
                    continue  # the server is away: nothing was acknowledged
                acknowledged.append(key)
                if len(acknowledged) - before >= ENOUGH:
                    enough.set()

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    try:
        for writer in writers:
            writer.start()
        enough.wait(60)
        restart()
    finally:  # also if this process is told to stop: it would wait for its writers forever
        stop.set()
        for writer in writers:
            if writer.ident:  # it was started
                writer.join()


def _read(store: Store, keys: Sequence[Key]) -> list[Seen]:
    found: list[Seen] = []
    for at in range(0, len(keys), 500):
        found += store.get(keys[at : at + 500])
    return found


# ----- the settings of each store


def settings(scheme: str) -> tuple[Setting, ...]:
    """Name the ways to run a server that are worth comparing; one, where nobody said which."""
    return SETTINGS.get(scheme, (Setting("as it is started here"),))


def _asynchronous(url: str) -> str:
    """Say so in front of the options that name the schema of this place."""
    return url.replace("options=", "options=-csynchronous_commit%3Doff%20", 1)


def _redis(**values: str) -> Callable[[str], None]:
    def change(url: str) -> None:
        import redis

        with closing(redis.Redis.from_url(url.partition("?")[0])) as client:
            for name, value in values.items():
                client.config_set(name.replace("_", "-"), value)

    return change


def _mariadb(value: int) -> Callable[[str], None]:
    def change(url: str) -> None:
        import pymysql

        from onefold.stores.mariadb.address import address

        with closing(pymysql.connect(**address(url).settings, ssl_disabled=True)) as connection:
            connection.query(f"SET GLOBAL innodb_flush_log_at_trx_commit = {value:d}")

    return change


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "postgresql": (
        Setting("synchronous_commit=on"),
        Setting("synchronous_commit=off", _asynchronous),
    ),
    "redis": (
        Setting("appendonly yes, appendfsync always", change=_redis(appendonly="yes", appendfsync="always")),
        Setting(
            "appendonly yes, appendfsync everysec", change=_redis(appendonly="yes", appendfsync="everysec")
        ),
        Setting("appendonly no", change=_redis(appendonly="no")),
    ),
    "mariadb": (
        Setting("innodb_flush_log_at_trx_commit=1", change=_mariadb(1)),
        Setting("innodb_flush_log_at_trx_commit=2", change=_mariadb(2)),
        Setting("innodb_flush_log_at_trx_commit=0", change=_mariadb(0)),
    ),
    "mongodb": (
        Setting("w=1, journal=true", lambda url: _mongodb(url, "w=1&journal=true")),
        Setting("w=1, journal=false", lambda url: _mongodb(url, "w=1&journal=false")),
    ),
}


def _mongodb(url: str, concern: str) -> str:
    plain = "&".join(
        one for one in url.partition("?")[2].split("&") if one and not one.startswith(("w=", "journal="))
    )
    return f"{url.partition('?')[0]}?{concern}{'&' + plain if plain else ''}"
