"""How the tests of stand-ins enter them: by `with` and by `async with`, both on the virtual loop."""

import pytest

from tests.fast.worlds.calling import Mode


@pytest.fixture(params=["with", "async with"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Both ways; `tests/processes/worlds` runs the same tests on a background thread."""
    return request.param  # type: ignore[no-any-return]
