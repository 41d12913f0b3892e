"""Our servers as processes of their own, as users start them; stopped by their own ids."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.peer.ports import lease_ports

_STOP_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server: what it said when it was ready, and its log on standard error."""

    address: str
    port: int
    popen: subprocess.Popen[str]
    log: Path
    banner: str
    start_s: float
    """Seconds from starting the process to the banner."""

    def resident_kb(self) -> int:
        for line in Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("the server has no resident memory")

    def is_alive(self) -> bool:
        return self.popen.poll() is None


@contextmanager
def name_server(folder: Path, config: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """Run mqnamesrv with its files in ``folder`` until the block ends."""
    lease = lease_ports()
    settings = {
        "listenPort": str(lease.first),
        "bindAddress": "127.0.0.1",
        "kvConfigPath": str(folder / "kvConfig.json"),
        "configStorePath": str(folder / "namesrv.properties"),
        **(config or {}),
    }
    conf = folder / f"namesrv-{lease.first}.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log = folder / f"namesrv-{lease.first}.log"
    started_s = time.perf_counter()
    with log.open("w") as stderr:
        popen = subprocess.Popen(
            [sys.executable, "-m", "roketto", "namesrv", "-c", str(conf)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert popen.stdout is not None
    try:
        while "boot success" not in (line := popen.stdout.readline()):
            assert line, f"the name server ended before it was ready: {log.read_text()}"
        taken_s = time.perf_counter() - started_s
        address = f"127.0.0.1:{lease.first}"
        yield ServerProcess(address, lease.first, popen, log, line.rstrip(), taken_s)
    finally:
        popen.terminate()
        popen.wait(_STOP_TIMEOUT_S)
        popen.stdout.close()
        lease.release()
