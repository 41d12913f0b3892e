"""The peer of the Spark sections: Spark's own connector for Kafka, with a Kafka of one node.

All of it comes by name and is kept where the Java peer of the tests is: a virtual environment with
the newest PySpark that the connector is released for, the connector's jars, and the broker's.
"""

import os
import socket
import subprocess
import sys
import time
import uuid
import venv
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interop.peer import JavaProcess, PeerFailedError, PeerUnavailableError
from interop.peer.cache import cached_directory, is_cached
from interop.peer.fetch import Module, fetch_modules
from interop.peer.java import Jdk
from interop.peer.ports import lease_ports

SPARK_VERSION: Final = "4.2.0"
"""The newest that Maven Central has the connector for."""
KAFKA_VERSION: Final = "4.3.1"
KAFKA_HEAP_MB: Final = 1024
"""As its script asks for."""

_SPARK: Final = "org.apache.spark"
_CONNECTOR: Final = (
    Module(_SPARK, "spark-sql-kafka-0-10_2.13", SPARK_VERSION, is_alone=True),
    Module("org.apache.kafka", "kafka-clients", "3.9.2", is_alone=True),
    Module("org.apache.commons", "commons-pool2", "2.13.1", is_alone=True),
)
"""The connector and what it needs beyond the jars of Spark, in the versions that it names."""
_TOKENS: Final = "spark-token-provider-kafka-0-10_2.13"
_TOKENS_VERSIONS: Final = (SPARK_VERSION, "4.1.0-preview1")
"""The connector asks it for delegation tokens; there are none here. Not every copy of Maven
Central has the one of the connector's own version; the results say which one ran."""

_INSTALL_TIMEOUT_S: Final = 1200.0
_START_TIMEOUT_S: Final = 60.0
_FORMAT_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_JVM_FLAGS: Final = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip
"""Those of its script."""


def spark_python() -> Path:
    """The Python of the environment with the peer's PySpark, made when it is not there."""
    name = f"pyspark-{SPARK_VERSION}-python-{sys.version_info.major}.{sys.version_info.minor}"
    return cached_directory(name, _install) / "bin" / "python"


def _install(folder: Path) -> None:
    venv.create(folder, with_pip=False, symlinks=True, clear=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    try:
        done = subprocess.run(
            [*pip, f"pyspark=={SPARK_VERSION}"],
            capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(
            f"PySpark {SPARK_VERSION} was not installed within {_INSTALL_TIMEOUT_S:.0f} s"
        ) from None
    if done.returncode:
        raise PeerUnavailableError(f"PySpark {SPARK_VERSION}: {done.stderr[-2000:]}")


@dataclass(frozen=True, slots=True)
class Connector:
    """What Spark needs on its class path to speak to Kafka."""

    jars: list[Path]
    tokens_version: str
    """Of the jar for delegation tokens."""


def connector(jdk: Jdk) -> Connector:
    """The connector, with the first helper for tokens that can be had."""
    failures = []
    fetched = [version for version in _TOKENS_VERSIONS if is_cached(_connector_name(version))]
    for version in fetched or _TOKENS_VERSIONS:
        modules = [*_CONNECTOR, Module(_SPARK, _TOKENS, version, is_alone=True)]
        try:
            folder = fetch_modules(jdk, _connector_name(version), modules)
        except PeerUnavailableError as failure:
            failures.append(str(failure))
        else:
            return Connector(sorted(folder.glob("*.jar")), version)
    raise PeerUnavailableError("; ".join(failures))


def _connector_name(tokens_version: str) -> str:
    return f"spark-kafka-{SPARK_VERSION}/tokens-{tokens_version}"


@contextmanager
def start_kafka(jdk: Jdk, folder: Path, queues: int) -> Iterator[tuple[str, int]]:
    """Run a broker that is its own controller; its address and its process id."""
    module = Module("org.apache.kafka", "kafka_2.13", KAFKA_VERSION)
    jars = fetch_modules(jdk, f"kafka-{KAFKA_VERSION}", [module])
    folder.mkdir(parents=True)
    lease = lease_ports((0, 1))
    config = folder / "server.properties"
    config.write_text(_properties(folder, lease.first, queues))
    java = [jdk.java, "-cp", f"{jars}/*"]
    _format(java, config)
    heap = [f"-Xms{KAFKA_HEAP_MB}m", f"-Xmx{KAFKA_HEAP_MB}m"]
    process = JavaProcess(
        "kafka", [java[0], *heap, *_JVM_FLAGS, *java[1:], "kafka.Kafka", str(config)], folder
    )
    try:
        _await_port(process, lease.first)
        yield f"127.0.0.1:{lease.first}", process.pid
    finally:
        process.kill()  # its files go with it
        lease.release()


def _properties(folder: Path, port: int, queues: int) -> str:
    """As its own example of a single node has them, but for names, ports and how it stands still.

    A broker that was held still for a while must not be taken for dead by its own controller.
    """
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / "logs"),
        "num.partitions": str(queues),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "broker.session.timeout.ms": "86400000",
        "connections.max.idle.ms": "86400000",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _format(java: list[str], config: Path) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    done = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)],
        capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False,
        env={name: value for name, value in os.environ.items() if "JAVA_OPTIONS" not in name},
    )  # fmt: skip
    if done.returncode:
        raise PeerFailedError(f"Kafka's storage was not formatted: {done.stdout}{done.stderr}")


def _await_port(process: JavaProcess, port: int) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if not process.running:
                raise process.failed("has ended before it served") from None
            if time.monotonic() > deadline_s:
                raise process.failed(f"did not serve within {_START_TIMEOUT_S:.0f} s") from None
            time.sleep(_POLL_S)
        else:
            return
