"""Java's proxy in front of Java's broker: what clients that speak gRPC need."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from broker_servers import Server
from client_install import fetch_proxy
from interop.peer import PLAIN, JavaProcess
from interop.peer.ports import lease_ports
from interop.peer.process import Jvm, prepare_home
from interop.peer.programs import load_runtime

PROXY_HEAP_MB: Final = 1024

_MAIN: Final = "org.apache.rocketmq.proxy.ProxyStartup"
_STARTED: Final = "startup successfully"
_START_TIMEOUT_S: Final = 120.0
_PORTS: Final = (0, 1)
"""For gRPC, and for the clients that a broker has, too."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """It stands still unless somebody works with it."""

    address: str
    pid: int

    @contextmanager
    def working(self) -> Iterator[None]:
        os.kill(self.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGSTOP)


@contextmanager
def start_proxy(version: str, server: Server) -> Iterator[Proxy]:
    """In cluster mode: beside the broker, and not in its process."""
    runtime = load_runtime(version)
    runtime = replace(runtime, jars=fetch_proxy(runtime.jdk, version))
    lease = lease_ports(_PORTS)
    with TemporaryDirectory(prefix="roketto-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "proxy"
        prepare_home(home)
        config = home / "proxy.json"
        settings = {
            "rocketMQClusterName": "DefaultCluster",
            "grpcServerPort": lease.first,
            "remotingListenPort": lease.first + 1,
            "localServeAddr": "127.0.0.1",
        }
        config.write_text(json.dumps(settings))
        words = ["-n", server.name_server, "-pc", str(config), "-pm", "cluster"]
        command = runtime.leashed(Jvm(PROXY_HEAP_MB, PLAIN), home, _MAIN, words)
        process = JavaProcess("Java's proxy", command, home)
        try:
            process.wait_for_output(_STARTED, _START_TIMEOUT_S)
            os.kill(process.pid, signal.SIGSTOP)
            yield Proxy(f"127.0.0.1:{lease.first}", process.pid)
        finally:
            process.kill()
            lease.release()
