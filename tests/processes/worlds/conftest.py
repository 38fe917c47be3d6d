"""How these tests enter a stand-in: by `with`, which serves real sockets from a background thread."""

import pytest

from tests.fast.worlds.calling import Mode


@pytest.fixture
def mode() -> Mode:
    return "with"
