"""The torture, on a machine that is so busy that every random kill comes after its worker has ended."""

import sys

from onefold.testing.torture.__main__ import main
from onefold.testing.torture.places import PLACES

PLACES["sqlite"] = PLACES["sqlite"]._replace(life=1_000_000.0)

if __name__ == "__main__":
    sys.exit(main())
