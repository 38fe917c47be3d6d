"""What docs/ shows works: Python runs, TOML parses, commands exit as said, links lead somewhere.

Commands run inside this process here. README.md and docs/start.md, which readers try out first, are run with
real commands in tests/processes/docs. The second half plants mistakes into pages of its own, to prove that
the first half can fail.
"""

from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.fast.docs.pages import Block, anchors, broken_links, links
from tests.fast.docs.runner import Broken, commands, run_page

README = ROOT / "README.md"
FIRST = (ROOT / "docs" / "start.md", README)
"""The pages that are run with real commands."""

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path not in FIRST]
LINKING = [*FIRST, *PAGES, *sorted(path for path in ROOT.glob("*.md") if path != README)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to be in, with no settings inherited from whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONEFOLD_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=name)
@pytest.mark.usefixtures("elsewhere")
def test_what_a_page_shows_works(page):
    run_page(name(page), page.read_text("utf-8"))


@pytest.mark.parametrize("page", LINKING, ids=name)
def test_every_link_inside_the_repository_leads_somewhere(page):
    assert broken_links(page) == []


# Can it fail? Each page below holds one mistake, or one thing that must be allowed.


def page(*parts: tuple[str, str]) -> str:
    return "".join(f"Some words.\n\n```{language}\n{text}\n```\n\n" for language, text in parts)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(page(("python", "1 / 0")), "page.md:4: ZeroDivisionError", id="an exception"),
        pytest.param(
            page(("python", "x = 1\nassert x == 2")), "page.md:5: AssertionError", id="a false claim"
        ),
        pytest.param(page(("python", "def broken(:")), "page.md:4: SyntaxError", id="bad syntax"),
        pytest.param(page(("python", "raise SystemExit(0)")), "page.md:4: SystemExit", id="leaving early"),
        pytest.param(
            page(("python", "import asyncio\nawait asyncio.wait_for(asyncio.Event().wait(), 0)")),
            "page.md:5: TimeoutError",
            id="an exception while awaiting",
        ),
        pytest.param(
            page(("python", "import warnings\nwarnings.warn('old', DeprecationWarning)")),
            "page.md:5: DeprecationWarning",
            id="a warning",
        ),
        pytest.param(
            page(("python", "x = 1")) + page(("python", "y")), "page.md:10: NameError", id="a later block"
        ),
        pytest.param(
            "1. In a list\n\n   ```python\n   y\n   ```\n", "page.md:4: NameError", id="an indented block"
        ),
        pytest.param("<!-- python\ny\n-->\n", "page.md:2: NameError", id="a hidden block"),
        pytest.param("```python\ny\n", "page.md:2: NameError", id="a block that is never closed"),
        pytest.param(page(("toml", "a = ")), "page.md:4: TOML", id="bad TOML"),
        pytest.param(
            page(("console", "$ onefold no-such-command")),
            "instead of 0: onefold no-such-command",
            id="a bad command",
        ),
        pytest.param(
            page(("sh", "$ onefold no-such-command  # exit 77")),
            "instead of 77",
            id="another exit code than shown",
        ),
    ],
)
def test_a_planted_mistake_is_found(text, complaint):
    with pytest.raises(Broken) as found:
        run_page("page.md", text)

    assert complaint in str(found.value)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("text", "ran"),
    [
        pytest.param(
            page(("python", "x = 1"), ("python", "assert x == 1")), 2, id="one namespace for the page"
        ),
        pytest.param(
            page(
                ("python", "import asyncio\nfuture = asyncio.Future()\nawait asyncio.sleep(0)"),
                ("python", "future.set_result(1)\nassert await future == 1"),
            ),
            2,
            id="one event loop for the page",
        ),
        pytest.param(
            page(("python", "import dataclasses\n@dataclasses.dataclass\nclass Order:\n    id: 'str'")),
            1,
            id="a class that looks up its own module",
        ),
        pytest.param("<!-- python\nx = 1\n-->\n" + page(("python", "x")), 2, id="hidden preparation"),
        pytest.param(page(("text", "1 / 0"), ("", "nor this"), ("json", "{")), 0, id="blocks for the eye"),
        pytest.param(page(("console", "$ rm nothing\nonefold: some output")), 0, id="commands of others"),
        pytest.param("````markdown\n```python\n1 / 0\n```\n````\n", 0, id="a block that shows a block"),
        pytest.param(
            page(("console", "$ onefold no-such-command  # exit 2")), 1, id="an exit code that was announced"
        ),
        pytest.param(
            page(("sh", "$ python -m onefold.apps.listings  # exit 1")), 1, id="a module that is run"
        ),
    ],
)
def test_what_is_right_passes(text, ran):
    assert run_page("page.md", text) == ran


def test_a_page_starts_in_the_current_folder_and_its_blocks_share_it(elsewhere):
    made = ("python", "with open('names.json', 'w') as file:\n    file.write('[]')")
    put = ("console", "$ onefold settings put names names.json --store sqlite:///made.db")
    run_page("page.md", page(made, put))

    assert (elsewhere / "made.db").exists()


def test_a_block_that_names_a_file_is_saved_for_the_blocks_after_it(elsewhere):
    text = page(("toml", "# shop.toml\nx = 1"), ("python", "# shop.py\nx = 1"), ("python", "import shop"))

    run_page("page.md", f"<!-- python\nimport sys\nsys.path.insert(0, '')\n-->\n{text}")

    assert (elsewhere / "shop.toml").read_text() == "# shop.toml\nx = 1\n"


def test_commands_may_continue_on_the_next_line_and_announce_their_exit_code():
    block = Block("console", "$ onefold a \\\n    b\noutput\n$ onefold c  # needs a person: exit 3\n", 10)

    assert list(commands(block)) == [
        (10, "onefold a \\\n    b", 0),
        (13, "onefold c  # needs a person: exit 3", 3),
    ]


def test_links_are_found_in_prose_only():
    text = (
        '[one](a.md) ![two](b.png "title") [three](<c d.md>) `[no](x.md)`\n\n'
        "```text\n[no](y.md)\n```\n\n[four]: docs/e.md#part\n"
    )

    assert list(links(text)) == ["a.md", "b.png", "c d.md", "docs/e.md#part"]


def test_anchors_are_named_as_code_hosts_name_them():
    text = "# What `swap` does, really\n## Again\n## Again\n```sh\n# no heading\n```\n"

    assert anchors(text) == {"what-swap-does-really", "again", "again-1"}


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "there.md").write_text("# Part\n")
    start = tmp_path / "start.md"
    start.write_text(
        "# Top\n[a](there.md#part) [b](#top) [c](https://example.org/x)\n"
        "[d](gone.md) [e](there.md#gone) [f](#gone)\n"
    )

    assert broken_links(start) == ["gone.md", "there.md#gone", "#gone"]
