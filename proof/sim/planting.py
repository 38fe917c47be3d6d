"""Plants a bug: production modules are imported anew, with some of their text or a function replaced.

What was imported before the planting is forgotten, but objects made of it live on. So a bug stays for the
rest of a process (`plant`), or for a block that uses nothing from before (`planted`). Files are read and
never written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from proof.sim.bug import Bug, Edit, Misplanted, Swap
from proof.sim.swapping import install

FORGOTTEN = ("onefold", "proof")
"""The packages that are imported anew: the one with the bug, and the one that holds on to modules of it."""


class Planted(SourceFileLoader):
    """Loads a module from its file, with a bug in it."""

    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self.bug = bug

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Compile the changed text; nothing of it is cached."""
        text = changed(self.get_source(fullname) or "", fullname, self.bug)
        return compile(text, self.get_filename(fullname), "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed text, then replace functions: the importers of this module wait for both."""
        super().exec_module(module)
        for edit in self.bug.edits:
            if isinstance(edit, Swap) and edit.module == module.__name__:
                install(module, edit, self.bug.name)


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
        if isinstance(edit, Edit) and edit.module == module:
            text = _replaced(text, edit, bug.name)
    return text


def _replaced(text: str, edit: Edit, name: str) -> str:
    times = text.count(edit.old)
    if times != 1:
        raise Misplanted(f"{name}: its text stands {times} times in {edit.module}, not once:\n{edit.old}")
    return text.replace(edit.old, edit.new)


def plant(bug: Bug) -> None:
    """Forget all modules of ours, and plant the bug into those that are imported from now on."""
    _forget()
    sys.meta_path.insert(0, Planter(bug))


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Plant a bug into what is imported inside of the block; afterwards the modules are those from before."""
    modules, finders = _ours(), sys.meta_path[:]
    try:
        plant(bug)
        yield
    finally:
        sys.meta_path[:] = finders
        _forget()
        sys.modules.update(modules)


def _ours() -> dict[str, ModuleType]:
    return {name: one for name, one in sys.modules.items() if name.partition(".")[0] in FORGOTTEN}


def _forget() -> None:
    for name in _ours():
        del sys.modules[name]
