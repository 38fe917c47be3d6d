"""Cassandra: the current release from Maven Central, or where that is out of reach 2.1 from npm, on Java.

One node, on loopback. The commit log is synced before a write is acknowledged (`commitlog_sync: batch`): with
Cassandra's default, a kill loses what the last seconds acknowledged.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.launchers import cassandra21, parts
from tests.launchers.cassandra21 import Old
from tests.launchers.java import QUICK, java
from tests.launchers.server import Command, Missing, free_port, variable

VERSION = "5.0.9"
SHA256 = "6a80e6fddde88817deec4839ae431e3a9c4eeb728560336890094c6f870fef5e"
POM = Path(__file__).with_name("cassandra-pom.xml")
MAIN = "org.apache.cassandra.service.CassandraDaemon"
QUIET = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""
SETTINGS = """
cluster_name: onefold
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {storage}
native_transport_port: {port}
start_native_transport: true
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage}"
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
hints_directory: {folder}/hints
saved_caches_directory: {folder}/caches
cdc_raw_directory: {folder}/cdc
commitlog_sync: batch
commitlog_segment_size: 8MiB
auto_snapshot: false
auto_bootstrap: false
concurrent_reads: 8
concurrent_writes: 8
concurrent_counter_writes: 2
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
key_cache_size: 8MiB
file_cache_size: 32MiB
# A machine that runs tests is often busy, and an answer that is not given in time is another answer.
read_request_timeout: 20s
write_request_timeout: 20s
cas_contention_timeout: 20s
request_timeout: 20s
"""
# What Cassandra's own jvm17-server.options opens to it.
EXPORTED = """
java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch java.base/java.lang.ref
java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server
java.rmi/sun.rmi.transport.tcp java.sql/java.sql jdk.unsupported/sun.misc
jdk.compiler/com.sun.tools.javac.file
"""
OPENED = """
java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.io
java.base/java.net java.base/java.nio java.base/java.util java.base/java.util.concurrent
java.base/java.util.concurrent.atomic
java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module
java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util
java.base/jdk.internal.util.jar java.base/jdk.internal.misc java.base/sun.nio.ch
jdk.management/com.sun.management.internal jdk.compiler/com.sun.tools.javac
"""


@dataclass(frozen=True)
class Current:
    """The jars of the current release."""

    java: str
    jars: Path
    origin: str = f"Maven cassandra-all {VERSION}"
    query: str = ""

    def prepare(self, folder: Path) -> None:
        (folder / "logback.xml").write_text(QUIET)
        (folder / "storage-port").write_text(str(free_port()))

    def command(self, folder: Path, port: int) -> Command:
        storage = (folder / "storage-port").read_text()
        (folder / "cassandra.yaml").write_text(SETTINGS.format(folder=folder, port=port, storage=storage))
        properties = {
            "cassandra.config": f"file://{folder}/cassandra.yaml",
            "cassandra.storagedir": folder,
            "cassandra-foreground": "yes",
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 0,
            "cassandra.shutdown_announce_in_ms": 0,
            "logback.configurationFile": f"file://{folder}/logback.xml",
            "java.io.tmpdir": folder,
            "io.netty.native.workdir": folder,
        }
        jvm = ["-Xms256m", "-Xmx512m", *QUICK]
        jvm += [f"-D{name}={value}" for name, value in properties.items()]
        jvm += [f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTED.split()]
        jvm += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED.split()]
        return Command([self.java, *jvm, "-cp", f"{self.jars}/*", MAIN])


class Cassandra:
    name = "cassandra"

    def __init__(self) -> None:
        self._query = ""

    def locate(self) -> Current | Old:
        runner = java()
        try:
            found: Current | Old = Current(runner, parts.part(f"cassandra-{VERSION}", install))
        except Missing as missing:
            found = Old(runner, instead(str(missing)))
        self._query = found.query
        return found

    def url(self, port: int) -> str:
        return f"cassandra://127.0.0.1:{port}/system{self._query}"

    def ping(self, url: str) -> str:
        with session(url) as opened:
            return str(opened.execute("SELECT release_version FROM system.local").one()[0])

    @contextmanager
    def place(self, url: str) -> Iterator[str]:
        """Lend a keyspace; drop it on a server of somebody else's only, because that takes half a second."""
        name = f"onefold_{uuid.uuid4().hex}"
        how = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        with session(url) as opened:
            opened.execute(f"CREATE KEYSPACE {name} WITH replication = {how}")
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        if variable(self) in os.environ:
            with session(url) as opened:
                opened.execute(f"DROP KEYSPACE {name}")


def instead(reason: str) -> Path:
    """Give the old release where the current one cannot be had; if that fails too, say both reasons."""
    try:
        return parts.part("cassandra-2.1.0", cassandra21.install)
    except Missing as missing:
        raise Missing(f"{reason}; and 2.1 instead: {missing}" if str(missing) != reason else reason) from None


def install(folder: Path) -> None:
    maven = parts.program("mvn", "Cassandra")
    fetched = folder / "maven"
    # A repository of our own, so that nothing outside this checkout is written.
    command: list[str | Path] = [
        maven,
        "-B",
        "-q",
        "-f",
        POM,
        f"-Dcassandra={VERSION}",
        f"-Dmaven.repo.local={fetched}",
    ]
    parts.run([*command, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"], folder)
    digest = hashlib.sha256((folder / f"cassandra-all-{VERSION}.jar").read_bytes()).hexdigest()
    if digest != SHA256:
        raise Missing(f"cassandra-all {VERSION} is not what it was: sha256 {digest}, recorded was {SHA256}")
    shutil.rmtree(fetched)


@contextmanager
def session(url: str) -> Iterator[Any]:
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import RoundRobinPolicy

    whole = urlsplit(url)
    asked = parse_qs(whole.query)
    version = {"protocol_version": int(asked["protocol_version"][0])} if "protocol_version" in asked else {}
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=60)
    cluster = Cluster(
        [whole.hostname],
        whole.port or 9042,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        auth_provider=PlainTextAuthProvider(whole.username, whole.password) if whole.username else None,
        connect_timeout=5,
        **version,
    )
    try:
        yield cluster.connect(whole.path.strip("/") or None)
    finally:
        cluster.shutdown()
