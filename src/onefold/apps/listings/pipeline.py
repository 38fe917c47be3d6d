"""The pipelines of listings: collect from sites, process raw rows, notify users, clean up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from onefold.apps.listings.cleaning import Cleaning, Hours
from onefold.apps.listings.matching import Matches, match_parts
from onefold.apps.listings.schema import kinds
from onefold.apps.listings.sites import Site, check_answer, empty_fields, shape, stamped, version
from onefold.apps.listings.words import message
from onefold.apps.listings.writing import Applied, Raw, Tables
from onefold.core.errors import Misconfigured
from onefold.core.record import Record
from onefold.core.rows import Shape, rows_of
from onefold.core.terms import Terms, seconds
from onefold.runtime import current
from onefold.sinks.chat import Chat
from onefold.sinks.function import Function
from onefold.sinks.pace import Rates
from onefold.sinks.transaction import Transaction, Writes
from onefold.sources.poll import Next, Offset, Poll
from onefold.sources.rounds import Rounds
from onefold.sources.table import Table
from onefold.tables import kind_of
from onefold.worker.pipeline import KeyOf, Pipeline
from onefold.worker.secret import Secret
from onefold.worker.settings import Live

log = logging.getLogger("onefold.apps")

SHORTEST = 60.0
"""Seconds: a shorter window could miss a listing whose transaction took long."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `[apps.listings]` may say."""

    database: str
    """Your database: sqlite:///file.db or postgresql://…, or env:NAME where a password stands in it."""
    chat_token: Secret
    sites: dict[str, Site]
    joined: bool = True
    """Whether the ledger stands in the same database; then a row and its mark commit together."""
    every: str = "1m"
    """How often a site is asked."""
    pages: int = 50
    """How many pages of a site are read in one round."""
    process_every: str = "1s"
    notify_every: str = "5s"
    window: str = "24h"
    """How far back a filter sees that is new, edited or switched on again."""
    refresh: str = "1d"
    """After how long a row is noted again on a site that does not say when it was changed."""
    clean_after: str = "30d"
    """The age at which processed raw rows are taken away; "never" keeps them."""
    chat_url: str = "https://api.telegram.org"
    chat_pace: Rates = Rates()
    """Seconds between two messages: to anybody, to one person, to one group."""

    def __post_init__(self) -> None:
        if not self.sites:
            raise ValueError("there are no sites: write [apps.listings.sites.NAME] for each")
        if self.pages < 1:
            raise ValueError(f"pages is {self.pages}: write 1 or more")


def pipelines(settings: Settings, live: Live) -> Sequence[Pipeline]:
    """Say what is to be done."""
    _check(settings)
    collected = {name: site for name, site in settings.sites.items() if site.enabled}
    made = [_collector(settings, collected)] if collected else []
    made += [_processor(settings), _notifier(settings)]
    if settings.clean_after != "never":
        made.append(_cleaner(settings))
    return made


def _check(settings: Settings) -> None:
    kinds(kind_of(settings.database))
    if seconds(settings.window, "window") < SHORTEST:
        raise Misconfigured(
            f"window of [apps.listings] is {settings.window}: a listing may be written as late as that, "
            "write 1m or more"
        )


# ----- from sites to raw rows


def _collector(settings: Settings, sites: dict[str, Site]) -> Pipeline:
    refresh, tables = seconds(settings.refresh, "refresh"), Tables(settings.database)
    return Pipeline(
        "listings.collector",
        sources={name: feed(name, site, settings) for name, site in sites.items()},
        key={name: _versioned(name, site, refresh) for name, site in sites.items()},
        sink=_written(settings, Raw(tables, sites, refresh), tables),
        terms=Terms(lease="1m"),
        lag_alarm="1h",
    )


def _written(settings: Settings, write: Writes, tables: Tables) -> Transaction:
    return Transaction(tables.database, write, effect="joined" if settings.joined else "idempotent")


def _versioned(name: str, site: Site, refresh: float) -> KeyOf:
    def parts(record: Record) -> tuple[str, ...]:
        return name, record.id, version(record.body, site, refresh)

    return parts


class Rows:
    """Takes the rows out of the answers of one site, and says once which of its fields are always empty."""

    def __init__(self, name: str, site: Site, how: Shape) -> None:
        self._name = name
        self._site = site
        self._how = how
        self._told: set[str] = set()

    def __call__(self, body: Any) -> list[Any]:
        check_answer(body, self._site)
        rows = stamped(rows_of(body, self._how.rows), self._how, current().time())
        for field, path in empty_fields(rows, self._site).items():
            if field not in self._told:
                self._told.add(field)
                log.warning(
                    "site %s: %s is empty in all %d rows of a page: is its path %r right?",
                    *(self._name, field, len(rows), path),
                )
        return rows


def feed(name: str, site: Site, settings: Settings) -> Poll:
    """Read a site: the newest first as far as the cursor, or all of it where it has no order."""
    how = shape(site)
    rows = Rows(name, site, how)
    return Poll(
        site.url,
        id=how.id,
        at=how.at,
        unit=how.unit,
        rows=rows,
        order="newest-first",
        paging=_paging(site),
        pages=settings.pages,
        every=settings.every,
        lag=site.lag if site.at else None,
        headers=site.headers,
        may_be_empty=site.may_be_empty,
    )


def _paging(site: Site) -> Offset | Next | None:
    match site.paging:
        case "offset":
            return Offset(site.limit, param=site.offset_param, limit_param=site.limit_param)
        case "next":
            return Next(site.next)
        case _:
            return None


# ----- from raw rows to listings


def _processor(settings: Settings) -> Pipeline:
    tables = Tables(settings.database)
    return Pipeline(
        "listings.processor",
        sources={"listings_raw": Table(settings.database, "listings_raw", every=settings.process_every)},
        # The time, too: an id may be given again after its row was taken away.
        key=lambda record: (record.id, str(record.body["fetched_at"])),
        sink=_written(settings, Applied(tables, settings.sites), tables),
        terms=Terms(lease="1m", attempts=5, backoff=("1s", "10m")),
    )


# ----- from listings to messages


def _notifier(settings: Settings) -> Pipeline:
    matches = Matches(Tables(settings.database), seconds(settings.window, "window"))
    chat = Chat(
        settings.chat_token,
        message,
        to=lambda record: str(record.body["chat"]),
        url=settings.chat_url,
        rates=settings.chat_pace,
        gone=matches.gone,
    )
    return Pipeline(
        "listings.notifier",
        sources={"matches": Rounds(matches, every=settings.notify_every, lag=settings.window, timed=True)},
        key=match_parts,
        sink=chat,
        terms=Terms(lease="2m"),
        lag_alarm="1h",
    )


# ----- what is no longer needed


def _cleaner(settings: Settings) -> Pipeline:
    age = seconds(settings.clean_after, "clean_after")
    return Pipeline(
        "listings.cleaner",
        sources={"hours": Rounds(Hours(), every="1m")},
        key=lambda record: record.id,
        sink=Function(Cleaning(Tables(settings.database), age), effect="idempotent"),
        terms=Terms(keep="7d"),
    )
