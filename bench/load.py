"""Put load on a server and say what came of it; load.c does the sending and counting.

The generator sends the same frames again and again with a fixed opaque per slot, so that every
answer has the same length. It is one thread of C, cheaper than any server it measures; where it
was busier than the server all the same, the result says that the generator was the limit.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from roketto.protocol.command import Command, decode_command, encode_command

_SOURCE = Path(__file__).with_name("load.c")
_READ_BYTES = 1 << 18
_FIRST_OPAQUE = 100_000_000  # every opaque has nine digits, so every answer has the same length
_BUSY = 0.9


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one server did under one load; CPU is in cores."""

    requests_per_s: float
    p50_us: float
    p99_us: float
    server_cpu: float
    generator_cpu: float
    limit: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class LoadError(Exception):
    """The server did not do what the load needs, or the generator cannot be built."""


class ConnectionEndedError(LoadError):
    """The server has closed the connection on which it was asked."""


@cache
def _generator() -> Path:
    """Compile load.c once per run."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadError("the load generator needs a C compiler; install gcc or clang")
    program = Path(tempfile.mkdtemp(prefix="roketto-bench-")) / "load"
    subprocess.run([compiler, "-O2", "-o", str(program), str(_SOURCE)], check=True)
    return program


def measure(
    address: str,
    request: Command,
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    server_pid: int,
) -> LoadResult:
    """Keep ``in_flight`` requests on each of ``connections`` for so long."""
    host, _, port = address.rpartition(":")
    frames = []
    for slot in range(in_flight):
        request.opaque = _FIRST_OPAQUE + slot
        frames.append(encode_command(request))
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        _, answer_bytes = call(connection, frames[0])
    sizes = [str(len(frames[0])), str(answer_bytes)]
    command = [str(_generator()), host, port, str(connections), str(in_flight), str(seconds)]
    cpu_before_s = process_cpu_s(server_pid)
    done = subprocess.run(
        [*command, *sizes], input=b"".join(frames), capture_output=True, check=False
    )
    if done.returncode != 0:
        raise LoadError(done.stderr.decode().strip())
    answered, elapsed_s, p50_us, p99_us, own_cpu_s = map(float, done.stdout.split())
    server_cpu = (process_cpu_s(server_pid) - cpu_before_s) / elapsed_s
    generator_cpu = own_cpu_s / elapsed_s
    return LoadResult(
        requests_per_s=answered / elapsed_s,
        p50_us=p50_us,
        p99_us=p99_us,
        server_cpu=server_cpu,
        generator_cpu=generator_cpu,
        limit=_limit(server_cpu, generator_cpu),
    )


def _limit(server_cpu: float, generator_cpu: float) -> str:
    """Who kept the rate from being higher."""
    if generator_cpu >= _BUSY > server_cpu:
        return "generator"
    return "server" if server_cpu >= _BUSY else "round trip"


def call(connection: socket.socket, frame: bytes) -> tuple[Command, int]:
    """Send one request and return its answer, which must be a success, and how long that is.

    Requests of the server come in between, such as that a group has changed; they need no answer.
    """
    connection.sendall(frame)
    data = b""
    while True:
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
            got = connection.recv(_READ_BYTES)
            if not got:
                raise ConnectionEndedError("the server closed the connection")
            data += got
        end = 4 + int.from_bytes(data[:4])
        answer = decode_command(memoryview(data)[4:end])
        if answer.is_response:
            break
        data = data[end:]
    if answer.code != 0:
        raise LoadError(f"the server answered {answer.code}: {answer.remark}")
    return answer, end


@contextmanager
def call_and_hold(address: str, request: Command) -> Iterator[Callable[[], None]]:
    """Make one successful request and keep its connection open; what it yields asks again."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:

        def ask() -> None:
            call(connection, encode_command(request))

        ask()
        yield ask


def process_cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LoadError(f"process {pid} has no resident memory")
