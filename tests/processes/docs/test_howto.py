"""Pages that end in tests of the reader's own are followed to the end: the files that they name pass."""

import re
from pathlib import Path

import pytest

from onefold.testing.contract import contract_tests
from tests.checkout import ROOT
from tests.fast.docs.pages import blocks

PAGES = ROOT / "docs" / "howto"
STORE, PIPELINE = PAGES / "write-a-store.md", PAGES / "test-your-pipeline.md"
NAMED = re.compile(r"# (\w+\.(py|ini))\n")


def files(page: Path) -> dict[str, str]:
    """Give the files that a page tells its reader to write, by their names."""
    found = [(NAMED.match(block.text), block.text) for block in blocks(page.read_text("utf-8"))]
    return {name[1]: text for name, text in found if name}


def follow(pytester: pytest.Pytester, written: dict[str, str], *options: str) -> pytest.RunResult:
    for name, text in written.items():
        (pytester.path / name).write_text(text)
    return pytester.runpytest_subprocess("-q", "--strict-markers", "-p", "no:cacheprovider", *options)


def test_a_reader_who_follows_the_page_has_a_store_that_keeps_the_contract(pytester):
    written = files(STORE)

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
    written = files(STORE)
    store = written["folder_store.py"]
    assert store.count(right) == 1
    written["folder_store.py"] = store.replace(right, wrong)

    result = follow(pytester, written, "-x", "-k", broken)

    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_reader_who_follows_the_page_has_tested_a_pipeline_in_fifteen_lines(pytester):
    written = files(PIPELINE)
    code = [line for line in written["test_shipping.py"].splitlines() if line and not line.startswith("#")]

    result = follow(pytester, written)

    assert list(written) == ["shipping.py", "test_shipping.py"]
    assert len(code) == 15
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("file", "right", "wrong", "told"),
    [
        ("shipping.py", "key=lambda order: order.id", 'key=lambda order: "any"', "AssertionError"),
        ("shipping.py", "shipped.append(order.id)", "shipped.extend([order.id] * 2)", "AssertionError"),
        ("shipping.py", 'every="30s"', 'every="20h"', "AssertionError"),
        ("test_shipping.py", "json.dumps", "json.dump_all", "AttributeError: module 'json'"),
    ],
)
def test_a_reader_whose_pipeline_is_wrong_is_told(pytester, file, right, wrong, told):
    written = files(PIPELINE)
    assert written[file].count(right) == 1
    written[file] = written[file].replace(right, wrong)

    result = follow(pytester, written)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert told in result.stdout.str()
