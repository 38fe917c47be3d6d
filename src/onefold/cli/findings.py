"""What `doctor` makes of the facts it gathered, as pure functions: what is so, what can be lost, what to do.

Nothing here looks at a file, a clock or a store; `doctor` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from onefold.cli.codes import Code
from onefold.cli.text import counted
from onefold.core.story import moment, span
from onefold.core.transport import Protection, is_loopback

Level = Literal["ok", "note", "look", "unsafe", "down"]

CODES: dict[Level, Code] = {
    "ok": Code.FINE,
    "note": Code.FINE,
    "look": Code.PERSON,
    "unsafe": Code.UNSAFE,
    "down": Code.UNREACHABLE,
}
_WORST_FIRST: tuple[Level, ...] = ("down", "unsafe", "look")

NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip
"""File systems that several machines can mount, and where SQLite's locks and shared memory fail."""

MENDED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""The first versions without the WAL-reset bug: two branches that got the fix later, and the main one."""

NTP = "set the clocks of all workers by NTP; if they cannot be, raise max_skew in the store's URL"

LITTLE_SPACE = 256 * 2**20
FUTURE = 60.0


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    level: Level
    text: str
    lost: str = ""
    do: str = ""


def verdict(findings: list[Finding]) -> Code:
    """Return the exit code: the worst of what was found."""
    levels = {finding.level for finding in findings}
    return next((CODES[level] for level in _WORST_FIRST if level in levels), Code.FINE)


def trip(state: str, seconds: float) -> Finding:
    """Judge a claim that was made, settled and removed."""
    if state == "settled":
        return Finding("round trip", "ok", f"claimed, settled and removed in {seconds * 1000:.1f} ms")
    if state == "busy":
        return Finding("round trip", "note", "not made: another doctor is at it, or died a moment ago")
    return Finding(
        "round trip",
        "unsafe",
        f"a claim of the doctor's own ended as {state!r}",
        "the store does not keep what it is told, so nothing it says can be relied upon",
        "stop the workers, and look at the other findings",
    )


def schema(version: int, known: int) -> Finding:
    """Judge the version of the tables."""
    if version == known:
        return Finding("schema", "ok", f"version {version}, the newest that this Onefold knows")
    lost = "nothing yet; this Onefold was made for other tables"
    return Finding(
        "schema", "look", f"version {version}, but this Onefold knows {known}", lost, "upgrade Onefold"
    )


def journal(mode: str) -> Finding:
    """Judge how the file is written."""
    if mode == "wal":
        return Finding("journal", "ok", "write-ahead log")
    return Finding(
        "journal",
        "note",
        f"mode {mode!r} instead of a write-ahead log",
        "nothing, but readers and writers wait for each other",
        "if the file is Onefold's own: PRAGMA journal_mode = WAL, once",
    )


def synchronous(level: int) -> Finding:
    """Judge when a write counts as written. 2 and 3 wait for the disk at every commit, 1 at checkpoints."""
    if level >= 2:
        return Finding("synchronous", "ok", "full: what is answered is on the disk")
    return Finding(
        "synchronous",
        "look",
        "normal: an answer may come before the disk has it",
        "a power cut can undo the last moments: effects of that time may run again, receipts be gone",
        "leave synchronous=normal out of the store's URL",
    )


def libraries(bundled: str, python: str) -> Finding:
    """Judge the copies of SQLite in this environment."""
    if not mended(bundled):
        return Finding(
            "library",
            "unsafe",
            f"SQLite {bundled} (bundled) has the WAL-reset bug",
            "the whole file: two connections that write and checkpoint at the same moment can damage it",
            "pip install -U apsw",
        )
    if mended(python):
        return Finding("library", "ok", f"SQLite {bundled} (bundled); Python's own is {python}")
    return Finding(
        "library",
        "note",
        f"SQLite {bundled} (bundled); Python's own is {python}, which may have the WAL-reset bug",
        "nothing here, where it is not used; but a file in WAL mode that processes share through sqlite3, "
        "as with Ledger.on(connection), can be damaged",
        "give Ledger.on a connection of apsw, or use a Python with SQLite 3.51.3; and never open one file "
        "through both libraries in one process: that loses its locks",
    )


def mended(version: str) -> bool:
    """Say whether a version of SQLite is free of the WAL-reset bug."""
    numbers = tuple(int(part) for part in version.split(".")[:3])
    return numbers >= MENDED[-1] or any(numbers[:2] == first[:2] and numbers >= first for first in MENDED)


def integrity(answers: list[str]) -> Finding:
    """Judge what a quick check of the file said."""
    if answers == ["ok"]:
        return Finding("integrity", "ok", "quick check passed")
    return Finding(
        "integrity",
        "unsafe",
        f"the file is damaged: {'; '.join(answers)}",
        "entries may be missing or wrong, so effects may run twice or never",
        "stop the workers and restore a backup, or save what is left with sqlite3's .recover",
    )


def not_checked(size: int) -> Finding:
    """Say that a file is too large to be read through in passing."""
    return Finding(
        "integrity",
        "note",
        f"not checked: {size / 2**20:,.0f} MB would take long",
        do="onefold doctor --deep",
    )


def space(free: int) -> Finding:
    """Judge the room that is left on the disk."""
    text = f"{free / 2**20:,.0f} MB free"
    if free >= LITTLE_SPACE:
        return Finding("disk", "ok", text)
    lost = "nothing yet; on a full disk every claim is refused, and what is running cannot be settled"
    return Finding("disk", "look", f"only {text}", lost, "make room, then onefold store purge")


def file_system(kind: str) -> Finding:
    """Judge what the file lies on."""
    if kind not in NETWORK:
        return Finding("file system", "ok", kind or "not known on this machine")
    return Finding(
        "file system",
        "unsafe",
        f"{kind}, which several machines can share",
        "the locks of one machine mean nothing to another: the file can be damaged, effects doubled",
        "move the file to a local disk; to share a ledger between machines use a store with a server",
    )


def folder(path: str, writable: bool) -> Finding:
    """Judge whether the files beside the database can be written."""
    if writable:
        return Finding("folder", "ok", "the file and its folder can be written")
    lost = "nothing, but no claim can be made: SQLite needs two more files beside the database"
    return Finding("folder", "look", f"{path} cannot be written by this user", lost, f"chown or chmod {path}")


def clock(newest: float | None, now: float) -> Finding:
    """Judge the times in the file by this machine's clock."""
    if newest is None or newest <= now + FUTURE:
        return Finding("clock", "ok", f"{moment(now)}; nothing was written in the future")
    return Finding(
        "clock",
        "look",
        f"an entry was written {span(newest - now)} in the future ({moment(newest)}), by this clock",
        "nothing, but silent holders look alive and back-offs last until the clock is there",
        "set the clocks of all machines that use this store by NTP",
    )


def server_clock(server: float, here: float) -> Finding:
    """Judge the server's clock by this machine's."""
    apart = abs(server - here)
    if apart <= FUTURE:
        return Finding("clock", "ok", f"{moment(server)} by the server, {apart:.1f} s from this machine's")
    return Finding(
        "clock",
        "look",
        f"the server's clock is {span(apart)} {'ahead of' if server > here else 'behind'} this machine's",
        "leases and memory go by the server's clock and stay right; what people read is not when it was",
        "set the clocks of all machines by NTP",
    )


def encryption(hosts: Sequence[str], protection: Protection, do: str) -> Finding:
    """Judge who can read and change what passes between this machine and a server."""
    far = ", ".join(host for host in hosts if not is_loopback(host))
    if protection == "verified":
        return Finding("encryption", "ok", "TLS, with the certificate and the host name verified")
    if not far:
        return Finding("encryption", "ok", "not needed: the server is reached inside of this machine")
    if protection == "encrypted":
        text = f"TLS to {far}, but nobody checks that it is this server that answers"
        lost = "another machine on the way can pose as the server, read the password and answer claims"
    else:
        text = f"none: passwords and entries cross the network to {far} in plain text"
        lost = "a machine on the way can read them, and change claims and answers"
    return Finding("encryption", "look", text, lost, do)


def worker_clock(ahead: float, here: float, max_skew: float, whose: str) -> Finding:
    """Judge this machine's clock, where workers' clocks stand in for the store's.

    Two workers that are each within half of `max_skew` of one clock are within all of it of each other.
    """
    apart = abs(ahead)
    if apart <= max_skew / 2:
        text = f"{moment(here)}, {apart:.0f} s from {whose}; {max_skew:g} s of skew are allowed for"
        return Finding("clock", "ok", text)
    way = "ahead of" if ahead > 0 else "behind"
    text = f"this machine's clock is {span(apart)} {way} {whose}, and workers may be {max_skew:g} s apart"
    if apart <= max_skew:
        lost = (
            "nothing yet; if another worker is as far off the other way, leases end too early for one of them"
        )
        return Finding("clock", "look", text, lost, NTP)
    lost = "leases and memory go by workers' clocks: a live holder can be taken over, effects run twice"
    return Finding("clock", "unsafe", text, lost, NTP)


def sources(wrong: int, known: int) -> Finding:
    """Judge whether sources are read, by what their workers reported."""
    if not wrong:
        return Finding(
            "sources", "ok", f"{counted(known, 'source')} known, none failing or left by dead workers"
        )
    text = f"{wrong} of {counted(known, 'source')} failing, or their workers are dead"
    lost = "nothing yet; but their records wait, and a source that reaches back only so far forgets them"
    return Finding("sources", "look", text, lost, "onefold sources")


def parked(number: int, silent: int) -> Finding:
    """Judge what waits."""
    waiting = f"{counted(silent, 'entry', 'entries')} held past the lease"
    if not number:
        return Finding("parked", "ok", f"nothing is parked; {waiting}")
    lost = "each of them may not have happened; none runs again by itself"
    text = f"{counted(number, 'entry', 'entries')} parked; {waiting}"
    return Finding("parked", "look", text, lost, "onefold list --parked")
