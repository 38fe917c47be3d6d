"""The page about writing a store is followed from start to finish: its files, as it names them, pass."""

import re
from pathlib import Path

import pytest

from onefold.testing.contract import contract_tests
from tests.docs.pages import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "write-a-store.md"
NAMED = re.compile(r"# (\w+\.(py|ini))\n")


def files() -> dict[str, str]:
    """Give the files that the page tells its reader to write, by their names."""
    found = [(NAMED.match(block.text), block.text) for block in blocks(PAGE.read_text("utf-8"))]
    return {name[1]: text for name, text in found if name}


def follow(pytester: pytest.Pytester, written: dict[str, str], *options: str) -> pytest.RunResult:
    for name, text in written.items():
        (pytester.path / name).write_text(text)
    return pytester.runpytest_subprocess("-q", "--strict-markers", "-p", "no:cacheprovider", *options)


def test_a_reader_who_follows_the_page_has_a_store_that_keeps_the_contract(pytester):
    written = files()

    result = follow(pytester, written)

    assert list(written) == ["folder_store.py", "test_folder_store.py", "pytest.ini", "check.py", "use.py"]
    result.assert_outcomes(passed=2 * len(contract_tests()))


@pytest.mark.parametrize(
    ("right", "wrong", "broken"),
    [
        ("fcntl.flock(lock, fcntl.LOCK_EX)", "pass", "one_wins"),
        ("change.expected + 1", "change.expected", "a_later_version_is_the_expected_one_plus_one"),
        ("elif stored and expired(stored, now):", "elif stored:", "removed"),
    ],
)
def test_a_reader_who_makes_a_mistake_is_told(pytester, right, wrong, broken):
    written = files()
    store = written["folder_store.py"]
    assert store.count(right) == 1
    written["folder_store.py"] = store.replace(right, wrong)

    result = follow(pytester, written, "-x", "-k", broken)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
