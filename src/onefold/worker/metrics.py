"""What a worker counted, as Prometheus metrics. The only module that imports prometheus-client.

Metrics are made of the tallies at the moment they are asked for; nothing is counted twice or here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onefold.core.errors import Misconfigured
from onefold.worker.tally import LATENESS, Count, Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from onefold.worker.observing import Observation

COUNTERS: dict[Count, tuple[str, str]] = {
    "seen": ("records_seen", "Records that a source showed."),
    "reread": ("records_reread", "Records read again on purpose."),
    "filtered": ("records_filtered", "Records passed over by the key function, or for nobody."),
    "broken": ("records_broken", "What a source showed that is no record, or has no key."),
    "retracted": ("records_retracted", "Records that take another back."),
    "won": ("claims_won", "Claims that were won."),
    "duplicate": ("duplicates", "Records that had been done before."),
    "raced": ("records_raced", "Records that another source of the pipeline had won before."),
    "busy": ("claims_busy", "Claims that somebody else holds."),
    "parked": ("claims_parked", "Claims of what was parked before."),
    "done": ("effects_done", "Effects that happened."),
    "refused": ("effects_refused", "Attempts after which nothing happened, to be tried again."),
    "released": ("claims_released", "Claims given back before their effect started."),
    "taken-over": ("take_overs", "Claims taken over from a holder that fell silent."),
    "lost": ("claims_lost", "Claims whose lease was lost."),
    "unsettled": ("effects_unsettled", "Ends of effects that the store did not confirm."),
    "gap": ("gaps_found", "Stretches of a source that could not be read."),
    "purged": ("entries_purged", "Done entries that were removed because their keep was over."),
}

NEWLY_PARKED: dict[Count, str] = {"in-doubt": "in-doubt", "failed": "failed"}


def exposition(observation: Observation) -> bytes:
    """Write all metrics in the text format of Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError as error:
        raise Misconfigured(
            f'metrics need {error.name}, which is not installed: pip install "onefold[worker]"'
        ) from error
    registry = CollectorRegistry()
    registry.register(_Collected(observation))
    return generate_latest(registry)


class _Collected:
    """What prometheus-client asks for metrics."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    def collect(self) -> Iterator[Metric]:
        yield from _counted(self._observation.worker.tallies)
        yield from _raced(self._observation.worker.tallies)
        yield from _gauges(self._observation)
        yield from _waiting(self._observation)

    def describe(self) -> Iterable[Metric]:
        return []


def _counted(tallies: dict[str, Tally]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for count, (name, what) in COUNTERS.items():
        family = CounterMetricFamily(f"onefold_{name}", what, labels=["pipeline", "source"])
        for pipeline, source, tally in _sources(tallies):
            family.add_metric([pipeline, source], tally.total(count, source))
        yield family
    family = CounterMetricFamily(
        "onefold_parked", "Effects that were parked, by why.", labels=["pipeline", "source", "why"]
    )
    for pipeline, source, tally in _sources(tallies):
        for count, why in NEWLY_PARKED.items():
            family.add_metric([pipeline, source, why], tally.total(count, source))
    yield family


def _raced(tallies: dict[str, Tally]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    labels = ["pipeline", "source"]
    first = CounterMetricFamily(
        "onefold_race_first", "Keys that a source showed before the others.", labels=labels
    )
    missed = CounterMetricFamily(
        "onefold_race_missed", "Keys that others showed and this one did not.", labels=labels
    )
    late = HistogramMetricFamily(
        "onefold_race_late_seconds", "How far behind the first a source was.", labels=labels
    )
    for pipeline, source, tally in _sources(tallies):
        first.add_metric([pipeline, source], tally.race.first[source])
        missed.add_metric([pipeline, source], tally.race.missed[source])
        late.add_metric([pipeline, source], _buckets(tally, source), sum_value=None)
    yield from (first, missed, late)


def _buckets(tally: Tally, source: str) -> list[tuple[str, float]]:
    """Add the classes of lateness up: each bucket holds what is at most that late."""
    total, buckets = 0, []
    for bound in (*LATENESS, float("inf")):
        total += tally.late[source][bound]
        buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
    return buckets


def _gauges(observation: Observation) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    labels = ["pipeline", "source"]
    rate = GaugeMetricFamily(
        "onefold_duplicate_rate", "Share of new records that had been done before.", labels=labels
    )
    lag = GaugeMetricFamily(
        "onefold_cursor_lag_seconds", "How far behind its source a reader is.", labels=labels
    )
    depth = GaugeMetricFamily("onefold_queue_depth", "Records read and not accounted for yet.", labels=labels)
    for reader in observation.worker.readers:
        names = [reader.pipeline.name, reader.name]
        rate.add_metric(names, reader.tally.duplicate_rate(reader.name))
        lag.add_metric(names, reader.lag)
        depth.add_metric(names, reader.under_way)
    alarm = GaugeMetricFamily("onefold_alarm", "1 while an alarm is raised.", labels=[*labels, "alarm"])
    for reader, alarms in observation.alarms:
        for kind in ("duplicates", "lag"):
            alarm.add_metric([reader.pipeline.name, reader.name, kind], float(kind in alarms.raised))
    ready = GaugeMetricFamily("onefold_ready", "1 if every source was read to its present and none fails.")
    ready.add_metric([], float(observation.worker.ready))
    yield from (rate, lag, depth, alarm, ready)


def _waiting(observation: Observation) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    entries = GaugeMetricFamily(
        "onefold_open_entries", "Open entries of a pipeline.", labels=["pipeline", "state"]
    )
    parked = GaugeMetricFamily(
        "onefold_parked_entries", "Entries that wait for a decision.", labels=["pipeline", "why"]
    )
    gaps = GaugeMetricFamily("onefold_unread_stretches", "Gaps in what sources showed.", labels=["pipeline"])
    tiles = GaugeMetricFamily(
        "onefold_coverage_gaps", "Tiles of a series that are not in.", labels=["pipeline", "series"]
    )
    for pipeline, waiting in observation.waiting.items():
        for state in ("free", "held", "parked"):
            entries.add_metric([pipeline, state], waiting.states[state])
        for why in ("in-doubt", "failed", "by-hand", "beyond-memory"):
            parked.add_metric([pipeline, why], waiting.parked[why])
        gaps.add_metric([pipeline], observation.gaps[pipeline])
    for names, number in observation.open_tiles.items():
        tiles.add_metric(names, number)
    yield from (entries, parked, gaps, tiles)


def _sources(tallies: dict[str, Tally]) -> Iterator[tuple[str, str, Tally]]:
    for pipeline, tally in tallies.items():
        for source in tally.sources:
            yield pipeline, source, tally
