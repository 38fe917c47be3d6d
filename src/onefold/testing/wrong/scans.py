"""Stores whose scans lose, repeat or invent entries, and stores that confuse keys or scopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onefold.core.entry import Change, Seen, State
from onefold.core.flow import Found
from onefold.core.key import Key
from onefold.testing.wrong.steps import Page, Right


class ForgetsScope(Right):
    """Lists every scope, whichever was asked for."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return super().scan(None, states, due, after, limit)


class FoldsScopes(Right):
    """Compares scopes as many databases compare text: without regard to case and trailing spaces."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found = self.all(None, states, due)
        if scope is not None:
            found = [each for each in found if each[0].scope.casefold().rstrip() == scope.casefold().rstrip()]
        return _by_offset(found, after, limit)


class ScanSkipsTies(Right):
    """Pages by the time of writing, and goes on past whatever shares it."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found = sorted(self.all(scope, states, due), key=_written)
        later = [each for each in found if after is None or _written(each) > float(after)]
        page = later[:limit]
        return page, repr(_written(page[-1])) if len(later) > limit else None


class ScanRepeatsTies(Right):
    """Pages by the time of writing, and starts again at whatever shares it."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found = sorted(self.all(scope, states, due), key=_written)
        later = [each for each in found if after is None or _written(each) >= float(after)]
        return later[:limit], repr(_written(later[limit])) if len(later) > limit else None


class PagesByOffset(Right):
    """Counts from the start of what is there now, so that whatever leaves hides a neighbour."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return _by_offset(self.all(scope, states, due), after, limit)


class OnePageOnly(Right):
    """Says that the first page is the last."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return super().scan(scope, states, due, after, limit)[0], None


class NeverLastPage(Right):
    """Says of an empty page, too, that there is another one."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found, after = super().scan(scope, states, due, after, limit)
        return found, after or "ff" * 32


class IgnoresTheLimit(Right):
    """Gives everything in one page, however much it is."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return self.all(scope, states, due), None


class ScanHidesNotDue(Right):
    """Lists only what is due, even where nobody asked for that."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return super().scan(scope, states, states != ("done",), after, limit)


class ScanShowsNotDue(Right):
    """Lists what is not due yet, even where only the due was asked for."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return super().scan(scope, states, False, after, limit)


class ScanForgetsDone(Right):
    """Lists open entries only."""

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        return super().scan(scope, [state for state in states if state != "done"], due, after, limit)


class ScanRemembers(Right):
    """Lists a key under every state that it ever had: an index that is written to and never cleaned."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._ever: dict[State, dict[Key, None]] = {"free": {}, "held": {}, "done": {}, "parked": {}}

    def told(self, change: Change, seen: Seen) -> Seen:
        if seen.entry:
            self._ever[seen.entry.state][change.key] = None
        return seen

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        ever = {key for state in states for key in self._ever[state] if scope in (None, key.scope)}
        found = [(key, seen) for key in sorted(ever, key=lambda key: key.id) for seen in self.get([key])]
        return _by_offset([each for each in found if each[1].entry], after, limit)


class ScanShowsTheRefused(Right):
    """Writes its index of open entries before it knows whether the change is accepted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._refused: dict[Key, Seen] = {}

    def told(self, change: Change, seen: Seen) -> Seen:
        if change.entry and (seen.entry is None or seen.entry.token != change.entry.token):
            self._refused[change.key] = Seen(change.entry)
        return seen

    def scan(
        self, scope: str | None, states: Sequence[State], due: bool, after: str | None, limit: int
    ) -> Page:
        found, after = super().scan(scope, states, due, after, limit)
        shown = [
            (key, seen) for key, seen in self._refused.items() if seen.entry and seen.entry.state in states
        ]
        return ([*found, *shown], after) if after is None else (found, after)


# ----- names


class FoldsCase(Right):
    """Takes keys that differ only in case for one."""

    def named(self, key: Key) -> Key:
        return Key(key.scope, *(part.casefold() for part in key.parts)) if key.parts else key


class TrimsSpaces(Right):
    """Takes keys that differ only in trailing spaces for one."""

    def named(self, key: Key) -> Key:
        return Key(key.scope, *(part.rstrip(" ") or part for part in key.parts)) if key.parts else key


class KnowsLabelsOnly(Right):
    """Takes keys with the same label for one, though labels are cut."""

    def named(self, key: Key) -> Key:
        return Key(key.scope, key.label)


class KnowsPartsOnly(Right):
    """Leaves the scope out of what makes a key."""

    def named(self, key: Key) -> Key:
        return Key("one for all", *key.parts) if key.parts else key


def _written(found: Found) -> float:
    entry = found[1].entry
    return entry.written if entry else 0.0


def _by_offset(found: Sequence[Found], after: str | None, limit: int) -> Page:
    start = int(after or 0)
    return found[start : start + limit], str(start + limit) if start + limit < len(found) else None
