"""From names to pipelines: sections of `onefold.toml`, apps, and `module:pipeline` or `file.py:pipeline`.

It imports the user's code, and says in one sentence what is wrong with it. It runs nothing.
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from onefold.core.errors import Misconfigured, OnefoldError
from onefold.core.terms import Terms
from onefold.stores.configured import known
from onefold.worker import apps
from onefold.worker.configuration import (
    Configuration,
    Overrides,
    PipelineSettings,
    Section,
    Values,
    struct,
)
from onefold.worker.pipeline import Pipeline
from onefold.worker.secret import masked
from onefold.worker.settings import Live

TERMS = ("lease", "keep", "attempts", "backoff")


def chosen(names: Sequence[str], found: Configuration, live: Live) -> list[Pipeline]:
    """Load what was named; without names, every section."""
    wanted = list(names) or [*found.pipelines, *found.apps]
    if not wanted:
        raise Misconfigured(
            "there is nothing to run: name a pipeline (onefold run shop/prices.py:pipeline), "
            "or write [pipelines.NAME] or [apps.NAME] into onefold.toml"
        )
    return [pipeline for name in dict.fromkeys(wanted) for pipeline in _named(name, found, live)]


def _named(name: str, found: Configuration, live: Live) -> list[Pipeline]:
    if name in found.pipelines:
        return from_section(found.pipelines[name], found.folder)
    if name in found.apps:
        return from_app(name, found.apps[name], found.folder, live)
    if ":" in name or name.endswith(".py"):
        return from_code(name, Path.cwd())
    if name in apps.built_in():
        raise Misconfigured(
            f"the app {name} needs its section: write [apps.{name}] into onefold.toml; "
            f"`onefold apps` shows its settings"
        )
    sections = [*found.pipelines, *found.apps]
    near = get_close_matches(name, sections, 1)
    hint = f"did you mean {near[0]}?" if near else f"these are known: {', '.join(sections) or 'none'}"
    where = found.file or "no onefold.toml was found"
    raise Misconfigured(
        f"{name!r} names no section: {hint} ({where}); code is named as module:pipeline or file.py:pipeline"
    )


# ----- sections


def from_section(section: Section, folder: Path) -> list[Pipeline]:
    """Load the pipelines of a section `[pipelines.NAME]`."""
    settings = struct(PipelineSettings, section, folder)
    with_where = f"use of [{section.title}] (from {section.values['use'].origin})"
    return [overridden(one, settings, section) for one in from_code(settings.use, folder, with_where)]


def from_app(name: str, section: Section, folder: Path, live: Live) -> list[Pipeline]:
    """Load the pipelines of a section `[apps.NAME]`: the app's own settings, then what overrides them."""
    app, own, common = parted(name, section, folder)
    settings = struct(app.settings, own, folder)
    with _importing(folder):
        made = app.pipelines(settings, live.of(name))
    overrides = struct(Overrides, common, folder)
    return [overridden(one, overrides, common) for one in _several(made, f"the app {name}")]


def parted(name: str, section: Section, folder: Path) -> tuple[apps.App, Section, Section]:
    """Load a section's app, and part the section: what the app declares, and what any may override."""
    use = section.values.get("use")
    with _importing(folder):
        app = apps.load(name, str(use.value) if use else None)
    declared = app.settings.__struct_fields__
    shared = [one for one in Overrides.__struct_fields__ if one not in declared]
    for key, one in section.values.items():
        known(section.title, [key], [*declared, *shared, "use"], one.origin)
    common = {key: one for key, one in section.values.items() if key in shared}
    own = {key: one for key, one in section.values.items() if key not in common and key != "use"}
    return app, Section(section.title, own), Section(section.title, common)


def overridden(pipeline: Pipeline, settings: Overrides, section: Section) -> Pipeline:
    """Change what a section says about a pipeline; what cannot work is refused with where it was said."""
    given = {
        name: value for name in Overrides.__struct_fields__ if (value := getattr(settings, name)) is not None
    }
    if not given:
        return pipeline
    try:
        terms = _terms(pipeline.terms, {name: given.pop(name) for name in TERMS if name in given})
        return dataclasses.replace(pipeline, terms=terms, **given)
    except Misconfigured as error:
        raise Misconfigured(f"{error} ({_said(section.values)})") from None


def _terms(terms: Terms, given: dict[str, Any]) -> Terms:
    keep = "forever" if terms.keep is None else terms.keep
    told: dict[str, Any] = {"lease": terms.lease, "keep": keep, "attempts": terms.attempts}
    return Terms(**{**told, "backoff": terms.backoff, **given})


def _said(values: Values) -> str:
    names = [name for name in values if name != "use"]
    return ", ".join(f"{name} comes from {values[name].origin}" for name in names)


# ----- code


def from_code(written: str, folder: Path, what: str = "") -> list[Pipeline]:
    """Load `module:name` or `file.py:name`; the name is `pipeline` if none is given."""
    home, _, name = written.rpartition(":") if ":" in written else (written, "", "pipeline")
    where = f"{what or 'the pipeline'} is {written!r}"
    with _importing(folder):
        module = _from_file(folder / home, where) if home.endswith(".py") else _from_module(home, where)
        if not hasattr(module, name):
            raise Misconfigured(f"{where}, but {home} has no {name}: {_offered(module)}")
        found = getattr(module, name)
        return _several(found() if callable(found) else found, where)


@contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Let code be imported from a folder, as for a script; tell in a sentence why it cannot be."""
    # It stays: the user's code may import more of its own when it runs.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    except OnefoldError:
        raise
    except Exception as error:
        raise Misconfigured(_broken(error)) from error


def _broken(error: Exception) -> str:
    """Say what went wrong while the user's code was loaded, and where."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{at.filename}, line {at.lineno}"
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it needs {error.name}, which is not installed (imported by {place})"
    return masked(f"loading it failed: {type(error).__name__}: {error} ({place})")


def _from_module(name: str, where: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Misconfigured(f"{where}, but there is no module {error.name}") from None
        raise


def _from_file(path: Path, where: str) -> ModuleType:
    if not path.is_file():
        raise Misconfigured(f"{where}, but there is no file {path}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # A script called queue.py must not take the place of Python's own.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    spec = spec_from_file_location(f"onefold_run_{path.stem}" if taken else path.stem, path)
    assert spec is not None, "a file that ends in .py can be imported"
    assert spec.loader is not None, "a file that ends in .py can be imported"
    module = module_from_spec(spec)
    # Classes and pickles look their module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _several(found: object, where: str) -> list[Pipeline]:
    several = list(found) if isinstance(found, list | tuple) else [found]
    strange = [type(one).__name__ for one in several if not isinstance(one, Pipeline)]
    if strange:
        raise Misconfigured(f"{where}, but that is a {strange[0]}: a Pipeline is needed")
    return [one for one in several if isinstance(one, Pipeline)]


def _offered(module: ModuleType) -> str:
    names = list(_pipelines(module))
    return f"its pipelines are {', '.join(names)}" if names else "it makes no Pipeline"


def _pipelines(module: ModuleType) -> Iterator[str]:
    return (name for name, value in vars(module).items() if isinstance(value, Pipeline))
