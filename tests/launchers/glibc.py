"""Lets a library that was built against glibc 2.38 be loaded by an older one.

The need for version GLIBC_2.38 is marked weak in a copy of the file, and the few functions behind it are
given by a small library of our own that is loaded first. Only files that were fetched for tests are changed.
"""

import platform
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.launchers import parts

__all__ = ["is_older", "lend_functions", "loosen"]

WANTED = b"GLIBC_2.38"
SOURCE = Path(__file__).with_name("glibc238.c")
VERNEED = 0x6FFFFFFE
WEAK = 2


def is_older() -> bool:
    name, version = platform.libc_ver()
    return name == "glibc" and tuple(map(int, version.split(".")[:2])) < (2, 38)


def lend_functions(folder: Path) -> Path:
    """Build the library that has to be loaded first."""
    library = folder / "glibc238.so"
    compiler = parts.program("gcc", "MongoDB on a glibc older than 2.38")
    parts.run([compiler, "-O2", "-fno-builtin", "-shared", "-fPIC", "-o", library, SOURCE, "-lm"], folder)
    return library


def loosen(path: Path) -> None:
    """Mark every need for glibc 2.38 in an ELF file (64 bit, little endian) as weak."""
    content = bytearray(path.read_bytes())
    for flags_at, flags in needs(content):
        struct.pack_into("<H", content, flags_at, flags | WEAK)
    path.write_bytes(content)


def needs(content: bytearray) -> Iterator[tuple[int, int]]:
    """Give where the flags of each need for glibc 2.38 stand, and what they are."""
    found = sections(content)
    for section in found:
        if section[1] == VERNEED:
            names, entry, count = found[section[6]][4], section[4], section[7]
            for _ in range(count):
                _, needed, _, first, following = struct.unpack_from("<HHIII", content, entry)
                yield from needs_of_file(content, names, entry + first, needed)
                entry += following


def needs_of_file(content: bytearray, names: int, at: int, count: int) -> Iterator[tuple[int, int]]:
    for _ in range(count):
        _, flags, _, name, following = struct.unpack_from("<IHHII", content, at)
        if content[names + name : content.index(0, names + name)] == WANTED:
            yield at + 4, flags
        at += following


def sections(content: bytearray) -> Sequence[tuple[int, ...]]:
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count, _ = struct.unpack_from("<HHH", content, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", content, table + number * size) for number in range(count)]
