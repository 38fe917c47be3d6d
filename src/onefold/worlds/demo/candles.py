"""Candles in the demo: a bar service that stalls and fails, and a table that anybody can count."""

from __future__ import annotations

import json
import sqlite3
import time
import urllib.request
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onefold.core.calendar import always
from onefold.core.coverage import Span
from onefold.worlds.bars import Bars
from onefold.worlds.demo.naive import remember, remembered
from onefold.worlds.mischief import Mischief

DAY = 86_400
DAYS = 12
PAIRS = {"EUR/USD": "C:EURUSD", "USD/JPY": "C:USDJPY"}
KEY = "demo-key-0123456789"
"""What the demo puts into $DEMO_KEY."""


class Candles:
    """Two pairs, some days, a thin market: about a bar in a quarter of an hour."""

    name = "candles"

    def start(self, folder: Path, seed: int) -> str:
        tricks = {"stall": 0.4, "error": 0.08, "busy": 0.05, "half": 0.04, "cut-before": 0.04}
        self.api = Bars(Mischief(seed, tricks, 0.5), key=KEY, page=25)  # type: ignore[arg-type]
        self.api.__enter__()
        today = int(time.time()) // DAY * DAY
        self.span = Span(today - DAYS * DAY, today)
        for pair, ticker in PAIRS.items():
            price = 150.0 if pair.endswith("JPY") else 1.1
            self.api.draw(ticker, self.span, seed, missing=0.95, calendar=always(), price=price)
        self._table = folder / "bars.db"
        self.happen(0.0)
        since, until = (datetime.fromtimestamp(at, UTC).date().isoformat() for at in self.span)
        return (
            f'api_key = "env:DEMO_KEY"\npairs = {json.dumps(list(PAIRS))}\nsince = "{since}"\n'
            f'until = "{until}"\nurl = "{self.api.url}"\nbars = "sqlite:///{self._table}"\n'
            'calendar = "24/7"\nleast = 0.01\npace = 0.0\nparallel = 2\nagain = "500ms"\nevery = "1s"\n'
            # Workers die far more often here than anywhere else, and every death is an attempt.
            'lease = "5s"\nbackoff = ["200ms", "2s"]\nattempts = 50\n'
        )

    def setup(self) -> dict[str, Any]:
        return {}

    def happen(self, share: float) -> None:
        # The plan lets so many days through by now; the rest is answered with a 429.
        self.api.shown_until = self.span.since + (int(share * DAYS) + 1) * DAY

    def calm(self) -> None:
        self.api.mischief.stop()

    def expected(self) -> Counter[str]:
        pairs = {ticker: pair for pair, ticker in PAIRS.items()}
        return Counter(
            _named(pairs[line["ticker"]], line["t"], line["o"], line["h"], line["l"], line["c"])
            for line in self.api.journal.of("minute")
        )

    def happened(self) -> Counter[str]:
        """Count what stands in the table, as any SQLite browser would."""
        return bars_in(self._table)

    def filtered(self) -> int:
        return 0

    def named(self, row: dict[str, Any]) -> str | None:
        """A tile that is parked is no bar; none should be."""
        return None

    def naive(self) -> dict[str, Any]:
        return {"api": self.api.url, "key": KEY, "table": str(self._table), "span": list(self.span)}

    def close(self) -> None:
        self.api.__exit__(None, None, None)


def bars_in(file: Path) -> Counter[str]:
    """Count the rows of a table of bars, by what they say."""
    if not file.exists():
        return Counter()
    # Not read-only: what a killed writer left half written is rolled back by whoever opens the file next.
    with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=5)) as browser:
        if not browser.execute("SELECT 1 FROM sqlite_master WHERE name = 'bars'").fetchall():
            return Counter()
        rows = browser.execute("SELECT symbol, timestamp_ms, open, high, low, close FROM bars")
        return Counter(_named(*row) for row in rows)


def _named(symbol: str, at: int, *prices: float) -> str:
    return f"{symbol}/{at}/" + "/".join(f"{price:.5f}" for price in prices)


# ----- as seed 002 has it


def naive(facts: dict[str, Any], folder: Path) -> None:
    """Mark a period when it was published, end at a failed page, insert without looking, buffer in memory."""
    downloaded = remembered(folder, "downloaded_periods.json", {})
    with closing(_naive_table(facts["table"])) as table:
        buffer: list[tuple[Any, ...]] = []
        since, until = facts["span"]
        for start in range(since, until, 2 * DAY):
            for pair, ticker in PAIRS.items():
                if [start, start + 2 * DAY] in downloaded.get(f"{pair}_1m", []):
                    continue
                bars = _naive_download(facts, ticker, start, start + 2 * DAY)
                rows = [(pair, "1m", *(bar[name] for name in "tohlcv")) for bar in bars]
                buffer += rows
                _naive_flush(table, buffer)
                # "Verify": too few are there, because the rest waits in memory; so publish all of them again.
                if _naive_count(table, pair, start) < 0.95 * len(rows):
                    buffer += rows
                    _naive_flush(table, buffer)
                downloaded.setdefault(f"{pair}_1m", []).append([start, start + 2 * DAY])
                # "Mark as downloaded", every now and then: a restart in between inserts it all again.
                if sum(map(len, downloaded.values())) % 2 == 0:
                    remember(folder, "downloaded_periods.json", downloaded)
                time.sleep(0.2)
    time.sleep(0.5)


def _naive_download(facts: dict[str, Any], ticker: str, since: int, until: int) -> list[dict[str, Any]]:
    """Follow the pages; whatever comes instead of a later one ends the list, as if it were whole."""
    url = f"{facts['api']}/v2/aggs/ticker/{ticker}/range/1/minute/{since * 1000}/{until * 1000 - 1}"
    bars: list[dict[str, Any]] = []
    while url:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {facts['key']}"})
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                page = json.load(answer)
        except (OSError, ValueError):
            if not bars:
                raise
            break
        bars += page.get("results", [])
        url = page.get("next_url")
    return bars


def _naive_table(file: str) -> sqlite3.Connection:
    table = sqlite3.connect(file, timeout=5, isolation_level=None)
    columns = "symbol, timeframe, timestamp_ms, open, high, low, close, volume"
    table.execute(f"CREATE TABLE IF NOT EXISTS bars ({columns})")
    return table


def _naive_count(table: sqlite3.Connection, pair: str, start: int) -> int:
    bound = (pair, start * 1000, (start + 2 * DAY) * 1000)
    counted = "SELECT count(*) FROM bars WHERE symbol = ? AND timestamp_ms >= ? AND timestamp_ms < ?"
    [(number,)] = table.execute(counted, bound)
    return int(number)


def _naive_flush(table: sqlite3.Connection, buffer: list[tuple[Any, ...]]) -> None:
    """Insert in batches; what does not fill one waits in memory."""
    while len(buffer) >= 50:
        batch, buffer[:50] = buffer[:50], []
        table.executemany(f"INSERT INTO bars VALUES ({', '.join('?' * 8)})", batch)
