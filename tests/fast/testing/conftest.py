"""What holds for tests of the virtual loop: each makes its own, and may look at how it leaves the process."""

from collections.abc import Iterator

import pytest

from tests.fast.outside import guarded


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Guard the test, but give it no loop."""
    with guarded():
        yield
