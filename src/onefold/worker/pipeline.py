"""A pipeline: sources, a key, a sink and terms, checked when it is made.

It only says what is to be done; `running` does it. What cannot work is refused here, before anything is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onefold.core.entry import EFFECTS
from onefold.core.errors import Misconfigured
from onefold.core.key import Key, Part
from onefold.core.ports import Sink, Source
from onefold.core.record import Record
from onefold.core.terms import Duration, Terms, seconds

Keyed = Key | Part | tuple[Part, ...] | None
KeyOf = Callable[[Record], Keyed]
Names = Iterable[str]
Each = Callable[[Record], Names | Awaitable[Names]]
Owns = Callable[[Key, Record], bool]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What to read, what makes two records the same effect, and what to do with each, once."""

    name: str
    """The scope of its keys, and its name in every list."""
    sources: Mapping[str, Source]
    key: KeyOf | Mapping[str, KeyOf]
    """Gives a key, or its parts; None passes a record over. With raced sources one per source name."""
    sink: Sink
    each: Each | None = None
    """Gives the names a record is for: one effect per name, each with a key of its own."""
    terms: Terms = Terms()  # noqa: RUF009  (frozen)
    undo: Sink | None = None
    """Takes back what was done, for records that retract another; without it a retraction is parked."""
    at_once: int = 16
    """How many effects run side by side."""
    timeout: Duration = "5m"
    """After this long an effect is given up; a one-shot one is then in doubt."""
    duplicate_alarm: float | None = None
    """Complain when more than this share of what a source shows was done before."""
    lag_alarm: Duration | None = None
    """Complain when a source falls behind by more than this."""
    owns: Owns | None = None
    """Says which waiting entries are this pipeline's, where pipelines of one name act in different ways."""

    def __post_init__(self) -> None:
        Key(self.name, "checked")
        _check_sources(self)
        _check_keys(self)
        _check_sink(self.name, self.sink)
        if self.undo is not None:
            _check_sink(self.name, self.undo)
        if self.undo is not None and self.each is not None:
            raise Misconfigured(
                f"pipeline {self.name} has each= and undo=: what is done for each cannot be taken back"
            )
        if type(self.at_once) is not int or self.at_once < 1:
            raise Misconfigured(f"at_once of pipeline {self.name} is {self.at_once!r}: write 1 or more")
        seconds(self.timeout, f"timeout of pipeline {self.name}")
        _check_alarms(self)

    def key_of(self, record: Record) -> Key | None:
        """Return what makes a record the same effect as another; None if it is passed over."""
        function = self.key if callable(self.key) else self.key[record.source]
        return _key(self.name, function(record))


def _key(scope: str, given: Any) -> Key | None:
    match given:
        case None:
            return None
        case Key():
            if given.scope != scope:
                raise Misconfigured(
                    f"pipeline {scope} was given a key of scope {given.scope!r}: its keys carry its own name"
                )
            return given
        case tuple():
            return Key(scope, *given)
        case _:
            return Key(scope, given)


def _check_sources(pipeline: Pipeline) -> None:
    if not pipeline.sources:
        raise Misconfigured(f"pipeline {pipeline.name} has no source: give sources={{'name': source}}")
    for name, source in pipeline.sources.items():
        if not name or not str(name).isprintable():
            raise Misconfigured(f"pipeline {pipeline.name} names a source {name!r:.80}: write a short text")
        _check_memory(pipeline, name, source)


def _check_memory(pipeline: Pipeline, name: str, source: Source) -> None:
    """Refuse to forget sooner than the source may show a record again."""
    keep = pipeline.terms.keep
    for word, limit in (("lag", source.lag), ("reach", source.reach)):
        if keep is not None and limit is not None and keep < limit:
            raise Misconfigured(
                f"pipeline {pipeline.name} keeps {keep:.0f} s, but its source {name} has a {word} of "
                f"{limit:.0f} s: what was done would be forgotten while it is still shown; raise keep"
            )


def _check_alarms(pipeline: Pipeline) -> None:
    """Refuse limits that nothing could pass, or everything."""
    share = pipeline.duplicate_alarm
    if share is not None and (type(share) not in (int, float) or not 0 <= share < 1):
        raise Misconfigured(
            f"duplicate_alarm of pipeline {pipeline.name} is {share!r}: write a share below 1, like 0.5"
        )
    if pipeline.lag_alarm is not None:
        seconds(pipeline.lag_alarm, f"lag_alarm of pipeline {pipeline.name}")


def _check_keys(pipeline: Pipeline) -> None:
    if callable(pipeline.key):
        return
    missing = sorted(set(pipeline.sources) - set(pipeline.key))
    if missing:
        raise Misconfigured(
            f"pipeline {pipeline.name} has no key function for its source {missing[0]}: add it to key={{…}}"
        )


def _check_sink(name: str, sink: Sink) -> None:
    effect = getattr(sink, "effect", None)
    if effect not in EFFECTS:
        raise Misconfigured(
            f"the sink of pipeline {name} declares effect {effect!r}: choose one of {', '.join(EFFECTS)}"
        )
