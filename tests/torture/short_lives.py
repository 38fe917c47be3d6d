"""The torture, where workers end long before the moment that their place expects."""

import sys

from onefold.testing.torture.__main__ import main
from onefold.testing.torture.places import PLACES

PLACES["sqlite"] = PLACES["sqlite"]._replace(life=1_000_000.0)

if __name__ == "__main__":
    sys.exit(main())
