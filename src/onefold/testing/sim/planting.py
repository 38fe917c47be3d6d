"""Plants a bug: production modules are imported anew, with a few words of their text replaced.

For a process of its own only: what was imported before the planting is forgotten, but objects made of it
live on. Files are read and never written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from onefold.testing.sim.bug import Bug, Edit

PACKAGE = "onefold"


class Misplanted(Exception):
    """The text that a bug replaces is not there, or is there more than once."""


class Planted(SourceFileLoader):
    """Loads a module from its file, with a bug in it."""

    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self.bug = bug

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Compile the changed text; nothing of it is cached."""
        text = changed(self.get_source(fullname) or "", fullname, self.bug)
        return compile(text, self.get_filename(fullname), "exec", dont_inherit=True)


class Planter(MetaPathFinder):
    """Finds the modules that a bug changes before the usual finder does."""

    def __init__(self, bug: Bug) -> None:
        self.bug = bug
        self.modules = {edit.module for edit in bug.edits}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            raise Misplanted(f"{self.bug.name}: there is no module {fullname}")
        spec.loader = Planted(fullname, spec.origin, self.bug)
        return spec


def changed(text: str, module: str, bug: Bug) -> str:
    """Replace what the bug replaces in the text of a module."""
    for edit in bug.edits:
        if edit.module == module:
            text = _replaced(text, edit, bug.name)
    return text


def _replaced(text: str, edit: Edit, name: str) -> str:
    times = text.count(edit.old)
    if times != 1:
        raise Misplanted(f"{name}: its text stands {times} times in {edit.module}, not once:\n{edit.old}")
    return text.replace(edit.old, edit.new)


def plant(bug: Bug) -> None:
    """Forget all modules of ours, and plant the bug into those that are imported from now on."""
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, Planter(bug))
