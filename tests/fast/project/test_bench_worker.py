"""How the benchmark of the worker proves that every record was acted upon once."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.measure import QUICK, Skipped
from benchmarks.stores.servers import NotThere
from benchmarks.worker.proof import Site, Stuck, pages, proven, wait_until


def test_every_record_is_on_exactly_one_page_and_they_grow():
    keys = [f"k{number}" for number in range(450)]
    read = list(pages(keys))
    assert [len(page) for page in read] == [200, 200, 50]
    assert [record["id"] for page in read for record in page] == keys
    assert [record["n"] for page in read for record in page] == list(range(1, 451))


@pytest.mark.parametrize(
    ("acted", "told"),
    [
        ([], "2 records without an effect, 0 effects too many"),
        (["a"], "1 records without an effect, 0 effects too many"),
        (["a", "a"], "1 records without an effect, 1 effects too many"),
        (["a", "b", "b"], "0 records without an effect, 1 effects too many"),
        (["a", "b", "another's"], "0 records without an effect, 1 effects too many"),
    ],
)
def test_an_alternative_that_misses_or_repeats_a_record_is_an_error(acted: list[str], told: str):
    with pytest.raises(Skipped, match=f"lazy: {len(acted)} effects for 2 records; {told}"):
        proven("lazy", acted, ["a", "b"])


def test_effects_may_come_in_any_order():
    assert proven("concurrent", ["b", "a"], ["a", "b"]) == 2


def test_a_round_that_does_not_end_is_an_error_with_its_reason():
    with pytest.raises(Stuck, match="slow did not finish within 0 s: one is missing"):
        wait_until(lambda: False, "slow", lambda: "one is missing", seconds=0)


def test_without_a_server_the_command_that_starts_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("ONEFOLD_SERVERS_PYTHON", raising=False)
    with ExitStack() as stack, pytest.raises(NotThere, match=r"nobody starts servers: \./dev bench worker$"):
        _ = Site(tmp_path, QUICK, stack).redis
