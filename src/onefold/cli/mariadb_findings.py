"""What `doctor` asks of a MariaDB, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what the server said. It changes nothing in the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onefold.cli import findings
from onefold.cli.findings import Finding
from onefold.drive import run
from onefold.runtime import current
from onefold.stores.mariadb.address import Address
from onefold.stores.mariadb.plan import Statement
from onefold.stores.mariadb.schema import schema_version
from onefold.stores.shells import Clients
from onefold.stores.sql import migrations

Told = Mapping[str, str]
"""What a server says of itself: settings by name, and a few facts beside them."""

TESTED, OLDEST = (10, 11), (10, 6)
"""The oldest version that Onefold was tested on, and the oldest that has what the statements need."""

PACKET = 16 * 2**20
"""Bytes that a server takes at once by default; batches are made to fit."""

NAMES = (
    "binlog_format",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "max_allowed_packet",
    "read_only",
    "rpl_semi_sync_master_enabled",
    "sync_binlog",
    "version",
    "wsrep_on",
)

_SETTINGS = Statement(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {NAMES}")
_FACTS = Statement(
    "SELECT (SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'), "
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6"
)
_ENGINES = Statement(
    "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE() "
    "AND table_name IN ('onefold_entries', 'onefold_meta') AND engine <> 'InnoDB'"
)
_COLUMNS = Statement(
    "SELECT column_name, column_type, COALESCE(collation_name, 'binary') FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = 'onefold_entries' "
    "AND data_type NOT IN ('bigint', 'int', 'double') AND COALESCE(collation_name, 'binary') "
    "<> IF(column_name IN ('id', 'scope'), 'binary', 'utf8mb4_bin')"
)


def look(client: Any) -> Iterator[Finding]:
    """Ask a server, through the store's own connection, and judge it."""
    before = current().time()
    [[(replicas, now)]] = client.execute_many([_FACTS])
    after = current().time()
    [rows, foreign, columns] = client.execute_many([_SETTINGS, _ENGINES, _COLUMNS])
    told = {**dict(rows), "replicas": str(replicas)}
    yield version(told)
    yield transport(client.address)
    yield role(told)
    yield commits(told)
    yield pages(told)
    yield binary_log(told)
    yield failover(told)
    yield galera(told)
    yield packets(told)
    yield engine([f"{table} ({kind})" for table, kind in foreign])
    yield collation([f"{name} ({kind}, {collation})" for name, kind, collation in columns])
    yield findings.schema(run(schema_version(), Clients(client)), len(migrations("mariadb")))
    yield findings.server_clock(now, (before + after) / 2)


def version(told: Told) -> Finding:
    """Judge the server's kind and version."""
    text = told["version"]
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if "MariaDB" not in text:
        lost = "nothing that is known; Onefold was tested on MariaDB only"
        return Finding("server", "note", f"MySQL {text}, or another relative", lost, "use MariaDB")
    if numbers >= TESTED:
        return Finding("server", "ok", text)
    if numbers >= OLDEST:
        lost = f"nothing that is known; Onefold was tested on {_dotted(TESTED)} and later"
        return Finding("server", "note", text, lost, f"upgrade to {_dotted(TESTED)} or later")
    lost = "nothing, but claims are refused: the server lacks what the statements need"
    return Finding("server", "down", text, lost, f"upgrade to {_dotted(TESTED)} or later")


def transport(address: Address) -> Finding:
    """Judge how the connection is protected; with TLS it is always verified."""
    hosts = [address.settings.get("unix_socket") or address.settings["host"]]
    do = "turn TLS on in the server and add ?ca=FILE to the URL, or ?ca=system for a public authority"
    return findings.encryption(hosts, "verified" if address.files else "plain", do)


def role(told: Told) -> Finding:
    """Judge whether this is the server that takes writes."""
    if told["read_only"] in ("OFF", "0"):
        return Finding("role", "ok", "takes writes: what it answers is what stands")
    return Finding(
        "role",
        "down",
        "set to read-only, as replicas are: what it shows may be old, and only some users can write to it",
        "effects may run twice, where workers that may write to a replica do so",
        "name the primary in the store's URL, or SET GLOBAL read_only = OFF if this is it",
    )


def commits(told: Told) -> Finding:
    """Judge when a commit counts as made."""
    setting = told["innodb_flush_log_at_trx_commit"]
    if setting in ("1", "3"):
        return Finding("commits", "ok", f"flushed ({setting}): what is answered is on the disk")
    what = "the machine" if setting == "2" else "the server"
    return Finding(
        "commits",
        "look" if setting == "2" else "unsafe",
        f"innodb_flush_log_at_trx_commit = {setting}: an answer comes before the disk has it",
        f"a crash of {what} can undo the last second: effects of that time may run again",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in the server's configuration",
    )


def pages(told: Told) -> Finding:
    """Judge whether half-written pages can be mended."""
    if told["innodb_doublewrite"] not in ("OFF", "0"):
        return Finding("full pages", "ok", "written twice: a page that was half written is mended")
    return Finding(
        "full pages",
        "unsafe",
        "innodb_doublewrite is off: a page that is half written at a crash stays so",
        "entries may be damaged, unless the file system writes whole pages or nothing",
        "set innodb_doublewrite = ON in the server's configuration",
    )


def binary_log(told: Told) -> Finding:
    """Judge the log that replicas read, and that a crashed server believes."""
    if told["log_bin"] in ("OFF", "0"):
        return Finding("binary log", "ok", "none: no replica reads from this server")
    if told["binlog_format"] == "STATEMENT":
        lost = "nothing, but claims are refused: their isolation needs rows in the log"
        do = "SET GLOBAL binlog_format = MIXED"
        return Finding("binary log", "down", "binlog_format = STATEMENT", lost, do)
    if told["sync_binlog"] == "1":
        return Finding("binary log", "ok", "flushed at every commit")
    return Finding(
        "binary log",
        "look",
        f"sync_binlog = {told['sync_binlog']}: the log may lack what was answered",
        "after a crash of the machine the last commits may be undone: their effects run again",
        "SET GLOBAL sync_binlog = 1, and the same in the server's configuration",
    )


def failover(told: Told) -> Finding:
    """Judge what a failover may lose."""
    number = int(told["replicas"])
    if not number:
        return Finding("failover", "ok", "no replica is connected: this server, or nobody, answers")
    if told.get("rpl_semi_sync_master_enabled") == "ON":
        return Finding("failover", "ok", "commits wait for a replica (semi-synchronous)")
    return Finding(
        "failover",
        "look",
        f"{number} replica{'s' * (number > 1)}, written to after the answer",
        "a replica that takes over may not know the last claims and receipts: their effects run again",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON, and its counterpart on the replicas",
    )


def galera(told: Told) -> Finding:
    """Judge whether several servers take writes."""
    if told.get("wsrep_on", "OFF") in ("OFF", "0"):
        return Finding("galera", "ok", "one server takes the writes")
    return Finding(
        "galera",
        "look",
        "a node of a Galera cluster, on which Onefold was not tested",
        "what another node shows may be old, and a claim may be won on two nodes: effects may run twice",
        "send all workers to one node, and set wsrep_sync_wait = 7",
    )


def packets(told: Told) -> Finding:
    """Judge how much can be asked at once."""
    size = int(told["max_allowed_packet"])
    if size >= PACKET:
        return Finding("packets", "ok", f"up to {size // 2**20} MB")
    return Finding(
        "packets",
        "look",
        f"max_allowed_packet = {size:,}",
        "nothing, but batches with large records or receipts are refused, and their effects do not start",
        f"SET GLOBAL max_allowed_packet = {PACKET}, and the same in the server's configuration",
    )


def engine(foreign: Sequence[str]) -> Finding:
    """Judge what keeps the tables."""
    if not foreign:
        return Finding("engine", "ok", "InnoDB")
    return Finding(
        "engine",
        "unsafe",
        f"not InnoDB: {', '.join(foreign)}",
        "there are no transactions: a crash may damage the ledger, and joined effects are not joined",
        "stop the workers, then ALTER TABLE … ENGINE = InnoDB",
    )


def collation(columns: Sequence[str]) -> Finding:
    """Judge whether different texts stay different. Ids and scopes are bytes, the rest is binary."""
    if not columns:
        return Finding("collation", "ok", "binary")
    return Finding(
        "collation",
        "unsafe",
        f"changed: {', '.join(columns)}",
        "different texts may count as equal, or lose letters: lists mix scopes, records are damaged",
        "stop the workers, then give the columns back what `onefold store sql mariadb:` prints",
    )


def _dotted(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))
