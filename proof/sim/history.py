"""One history from its seed to its verdict."""

from __future__ import annotations

from proof.sim.checkers import check
from proof.sim.world import World


def live(seed: int, tracing: bool = False) -> World:
    """Live through one history and hold every promise against it."""
    world = World(seed, tracing)
    try:
        world.run()
        if not any(violation.checker == "stuck" for violation in world.violations):
            check(world)
    except Exception as error:
        world.fail("errors", None, f"it broke off: {error!r}")
    finally:
        world.close()
    return world
