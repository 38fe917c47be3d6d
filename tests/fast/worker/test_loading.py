"""Pipelines are found by section, by app, by module and by file, and what is wrong is said in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.core.errors import Misconfigured
from onefold.worker.apps import built_in
from onefold.worker.configuration import nearest
from onefold.worker.loading import chosen
from onefold.worker.pipeline import Pipeline
from onefold.worker.settings import Live

SHOP = """\
from onefold import Pipeline, Terms
from onefold.core.record import Record
from onefold.sinks.function import Function
from onefold.sources.function import Function as Reads


def made(name, lag=None):
    reads = Reads(lambda cursor: [], finite=True, lag=lag)
    return Pipeline(name, sources={"feed": reads}, key=lambda record: record.id,
                    sink=Function(print, effect="idempotent"), terms=Terms(keep="30d"))


pipeline = made("prices", lag="10d")
both = [made("one"), made("two")]
late = lambda: made("late")
nothing = None
"""

APP = """\
\"\"\"Tells people about prices.\"\"\"
import msgspec
from shop import made

class Settings(msgspec.Struct, frozen=True):
    who: str
    keep: str = "40d"

LIVE = {"names": list[str]}

def pipelines(settings, live):
    return made(f"told-{settings.who}")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in ("shop", "teller", "broken", "wrong", "needs"):
        if name in sys.modules:  # left by a test with a folder of its own
            monkeypatch.delitem(sys.modules, name)
    before, path = set(sys.modules), list(sys.path)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "teller.py").write_text(APP)
    (tmp_path / "queue.py").write_text("from shop import pipeline\n")
    (tmp_path / "broken.py").write_text("x = 1\nraise OSError('no disk')\n")
    (tmp_path / "wrong.py").write_text("def (:\n")
    (tmp_path / "needs.py").write_text("import not_installed_here\n")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def names(*wanted: str) -> list[str]:
    return [one.name for one in load(*wanted)]


def load(*wanted: str) -> list[Pipeline]:
    return chosen(wanted, nearest(), Live())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("shop:pipeline", ["prices"]),
        ("shop:both", ["one", "two"]),
        ("shop:late", ["late"]),
        ("shop.py:pipeline", ["prices"]),
        ("shop.py", ["prices"]),
        ("queue.py:pipeline", ["prices"]),
    ],
)
def test_code_is_named_by_module_or_file(here: Path, wanted: str, found: list[str]):
    assert names(wanted) == found


def test_a_script_does_not_take_the_place_of_pythons_own_module(here: Path):
    import queue

    names("queue.py")

    assert sys.modules["queue"] is queue


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("shop:pipelin", ["'shop:pipelin'", "shop has no pipelin", "its pipelines are pipeline"]),
        ("shop:nothing", ["that is a NoneType: a Pipeline is needed"]),
        ("shap:pipeline", ["there is no module shap"]),
        ("gone.py:pipeline", ["there is no file", "gone.py"]),
        ("broken:pipeline", ["loading it failed: OSError: no disk", "broken.py, line 2"]),
        ("wrong.py:pipeline", ["SyntaxError", "wrong.py, line 1"]),
        ("needs:pipeline", ["it needs not_installed_here, which is not installed", "needs.py, line 1"]),
        ("prices", ["'prices' names no section", "no onefold.toml was found", "module:pipeline"]),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence(here: Path, wanted: str, words: list[str]):
    with pytest.raises(Misconfigured) as error:
        load(wanted)

    assert [word for word in words if word not in str(error.value)] == []


def test_without_names_every_section_is_loaded(here: Path):
    (here / "onefold.toml").write_text(
        '[pipelines.a]\nuse = "shop:pipeline"\n[pipelines.b]\nuse = "shop.py:both"\n'
        '[apps.c]\nuse = "teller"\nwho = "ann"\n'
    )

    assert names() == ["prices", "one", "two", "told-ann"]
    assert names("b", "c", "b") == ["one", "two", "told-ann"]


def test_without_names_and_sections_there_is_nothing_to_run(here: Path):
    with pytest.raises(Misconfigured, match=r"nothing to run: name a pipeline"):
        load()


def test_a_section_is_named_with_the_nearest_one_if_it_is_misspelled(here: Path):
    (here / "onefold.toml").write_text('[pipelines.prices]\nuse = "shop:pipeline"\n')

    with pytest.raises(Misconfigured, match="did you mean prices"):
        load("pricse")


def test_a_section_overrides_terms_and_limits_of_its_pipelines(here: Path):
    (here / "onefold.toml").write_text(
        '[pipelines.a]\nuse = "shop:both"\nkeep = "20d"\nlease = 5\nattempts = 2\nbackoff = [1, "2m"]\n'
        'at_once = 3\ntimeout = "7s"\nduplicate_alarm = 0.5\nlag_alarm = "1m"\n'
    )

    for one in load("a"):
        assert (one.terms.keep, one.terms.lease, one.terms.attempts) == (20 * 86400, 5, 2)
        assert list(one.terms.backoff) == [1.0, 120.0]
        assert (one.at_once, one.timeout, one.duplicate_alarm, one.lag_alarm) == (3, "7s", 0.5, "1m")


def test_a_keep_that_forgets_too_early_is_refused_with_where_it_was_said(here: Path):
    (here / "onefold.toml").write_text('[pipelines.a]\nuse = "shop:pipeline"\nkeep = "8d"\n')

    with pytest.raises(Misconfigured) as error:
        load("a")

    assert "source feed has a lag of 864000 s" in str(error.value)
    assert "raise keep (keep comes from" in str(error.value)
    assert "onefold.toml, line 3)" in str(error.value)


# ----- apps


def test_an_app_is_given_its_own_settings_and_the_rest_overrides_its_pipelines(here: Path):
    (here / "onefold.toml").write_text('[apps.c]\nuse = "teller"\nwho = "ann"\nkeep = "35d"\nattempts = 3\n')

    [one] = load("c")

    # keep is declared by the app itself, and means to it what it likes.
    assert (one.terms.keep, one.terms.attempts) == (30 * 86400, 3)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[apps.c]\nuse = "teller"', ["[apps.c] needs who"]),
        ('[apps.c]\nuse = "teller"\nwho = "ann"\nwhoo = 1', ["no setting 'whoo'", "did you mean who?"]),
        ('[apps.c]\nuse = "shop"', ["shop, which has no Settings"]),
        ('[apps.c]\nuse = "gone"', ["there is no module gone"]),
        ('[apps.c]\nuse = "needs"', ["needs not_installed_here", 'pip install "onefold[worker]"']),
        ("[apps.c]\n", ["there is no app 'c'", "use = "]),
    ],
)
def test_an_app_that_cannot_be_had_is_said_in_a_sentence(here: Path, section: str, words: list[str]):
    (here / "onefold.toml").write_text(section)

    with pytest.raises(Misconfigured) as error:
        load("c")

    assert [word for word in words if word not in str(error.value)] == []


def test_apps_that_come_along_are_listed_without_importing_them():
    before = set(sys.modules)

    assert isinstance(built_in(), list)
    assert not {name for name in set(sys.modules) - before if name.startswith("onefold.apps.")}
