"""Lets `python -m onefold` be the `onefold` command."""

import sys

from onefold.cli import main

sys.exit(main())
