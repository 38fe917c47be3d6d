"""Bugs of candles, its table and its source of tiles, which histories of candles must show.

This module must not import `onefold` at its top (see `Swap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.sim.bug import Bug, Swap

BARS = "onefold.apps.candles.bars"
DOWNLOAD = "onefold.apps.candles.download"
FILLING = "onefold.apps.candles.filling"
PIPELINE = "onefold.apps.candles.pipeline"
COVERAGE = "onefold.core.coverage"
PROGRESS = "onefold.worker.progress"
TABLE = "onefold.sinks.bars"


def _bug(name: str, sentence: str, module: str, qualname: str, replacement: Callable[..., Any]) -> Bug:
    return Bug(name, sentence, (Swap(module, qualname, replacement),), "candles")


def _judged(**wrong: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Judge tiles with some of the facts replaced."""

    def stands(
        original: Callable[..., Any],
        trouble: object,
        shown: int,
        confirmed: int,
        likely: float,
        closed: bool,
        refused: Any = (),
    ) -> Any:
        facts = {"trouble": trouble, "shown": shown, "confirmed": confirmed, "likely": likely}
        facts |= {"closed": closed, "refused": refused}
        return original(**{**facts, **{name: wrongly(facts) for name, wrongly in wrong.items()}})

    return stands


def _ended_by_an_empty_page(original: Callable[..., Any], body: Any, ticker: str, frame: Any = None) -> Any:
    page = original(body, ticker, frame)
    return page if page.rows else page._replace(following=None)


async def _ended_by_a_failed_page(original: Callable[..., Any], first: str, ask: Any) -> Any:
    shown = await original(first, ask)
    return shown._replace(trouble=None) if shown.rows else shown


BUGS: tuple[Bug, ...] = (
    _bug(
        "candles-in-when-published",
        "A tile is in when its bars were published, whatever the table has of them.",
        FILLING,
        "stands",
        _judged(confirmed=lambda facts: facts["shown"]),
    ),
    _bug(
        "candles-in-before-it-is-over",
        "The tile of the present day is in when it was read to its present end.",
        FILLING,
        "stands",
        _judged(closed=lambda facts: True),
    ),
    _bug(
        "candles-short-answer-believed",
        "The number of bars is counted, and never compared with what the market was open for.",
        FILLING,
        "stands",
        _judged(likely=lambda facts: 0.0),
    ),
    _bug(
        "candles-refused-rows-forgotten",
        "A tile is in although some of its rows were refused.",
        FILLING,
        "stands",
        _judged(refused=lambda facts: ()),
    ),
    _bug(
        "candles-empty-page-ends-a-tile",
        "A page without rows is taken for the last one, although it has a link.",
        DOWNLOAD,
        "read_page",
        _ended_by_an_empty_page,
    ),
    _bug(
        "candles-failed-page-ends-a-tile",
        "A page that fails ends the chain as if what came before it were all.",
        DOWNLOAD,
        "whole",
        _ended_by_a_failed_page,
    ),
    _bug(
        "candles-last-bar-not-asked-for",
        "The end of a stretch is taken for its last bar, which is never asked for.",
        DOWNLOAD,
        "Aggregates._first",
        lambda original, api, ticker, frame, span: original(
            api, ticker, frame, span._replace(until=span.until - frame.seconds)
        ),
    ),
    _bug(
        "candles-final-at-its-end",
        "A bar is final the moment it ends: the time in which it may still change is not waited for.",
        PIPELINE,
        "manner",
        lambda original, settings: original(settings)._replace(settle=0.0),
    ),
    _bug(
        "candles-corrections-always-taken",
        "The setting that refuses corrections is read and not obeyed.",
        PIPELINE,
        "manner",
        lambda original, settings: original(settings)._replace(corrects=True),
    ),
    _bug(
        "candles-every-asking-counts-alike",
        "All askings for a tile have one revision, so a correction never replaces what is stored.",
        BARS,
        "stored",
        lambda original, bar, origin, final_before: original(bar, origin._replace(revision=1), final_before),
    ),
    Bug(
        "candles-last-row-wins",
        "Of two rows of one bar the one that came last stays, whatever their versions say.",
        (
            Swap(TABLE, "weigh", lambda original, old, new: "better" if old else "new"),
            Swap(TABLE, "BarTable._upsert", lambda original, table: original(table).partition(" WHERE ")[0]),
        ),
        "candles",
    ),
    _bug(
        "candles-series-without-timeframe",
        "Bars of all timeframes share the name of one series, and so the keys of their tiles.",
        BARS,
        "series",
        lambda original, symbol, frame: original(symbol, frame)._replace(name=f"{symbol} 1m"),
    ),
    _bug(
        "candles-first-tile-cut-off",
        "A tile in the middle of which the wanted stretch begins is not asked for.",
        COVERAGE,
        "tiles",
        lambda original, wanted, step: (
            span for span in original(wanted, step) if span.since >= wanted.since
        ),
    ),
    _bug(
        "candles-wider-wish-starts-at-the-cursor",
        "The cursor of a series does not know since when the series is wanted, and older tiles stay out.",
        PROGRESS,
        "cursor_key",
        lambda original, pipeline, source: original(pipeline, source.partition(" since ")[0]),
    ),
)
