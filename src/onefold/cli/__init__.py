"""The `onefold` command. One file per group of commands: parse, one call, print, a telling exit code.

Data goes to stdout, talk to stderr. No command decides anything about a key: `core` does. What only
some commands need is imported by those commands, because a command should start at once.
"""

from __future__ import annotations


def main() -> int:
    """Run the command that was typed, and return its exit code."""
    import sys

    from onefold.cli.root import onefold

    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not turn an answer into an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code: int = onefold.main(standalone_mode=False)
    return code
