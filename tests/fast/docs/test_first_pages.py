"""README.md and docs/start.md hide nothing, and say what to install before it is needed."""

import pytest

from tests.checkout import ROOT
from tests.fast.docs.pages import blocks

FIRST = ["README.md", "docs/start.md"]


def test_the_readme_shows_python():
    assert any(block.language == "python" for block in blocks((ROOT / "README.md").read_text("utf-8")))


@pytest.mark.parametrize("name", FIRST)
def test_the_first_pages_hide_nothing_from_the_reader(name: str):
    assert "<!--" not in (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", FIRST)
def test_the_first_pages_begin_with_how_to_install(name: str):
    text = (ROOT / name).read_text("utf-8")

    assert 0 < text.index("pip install .") < text.index("```python")


def test_an_extra_is_named_before_the_example_that_needs_it():
    text = (ROOT / "README.md").read_text("utf-8")

    assert text.rindex('pip install ".[worker]"') < text.index("onefold.sources.poll")


def test_the_readme_is_read_in_three_minutes():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
