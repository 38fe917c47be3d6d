"""What the exit codes of every command mean: a promise to scripts, so none of them changes its meaning."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """The exit code of a command."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    PERSON = 3
    UNREACHABLE = 4
    UNSAFE = 5
    INTERRUPTED = 130


MEANING = {
    Code.FINE: "fine",
    Code.FAILED: "failed: nothing to do it to, or it did not work",
    Code.USAGE: "usage: the command line or a setting is wrong",
    Code.PERSON: "needs a person: something is parked, a source is not read, or doctor found something",
    Code.UNREACHABLE: "store unreachable: missing, damaged, locked or down",
    Code.UNSAFE: "unsafe: refused, because it could make an effect happen twice or lose one",
    Code.INTERRUPTED: "interrupted",
}
