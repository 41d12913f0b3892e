"""Put load on a broker and say what came of it; broker_load.c and broker_latency.c do the work."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from broker_servers import BrokerFailedError, Server
from load import LoadError

_FOLDER: Final = Path(__file__).parent
_RAMP_S: Final = 0.3
_LATENCY_RAMP_S: Final = 1.0
_LONGEST_S: Final = 3600.0
_SPARE_S: Final = 60.0
_TRANSACTIONS: Final = -1

REFUSED_SHARE_MAX: Final = 0.01
"""Java refuses what has waited for 200 ms. A few are a note; more, and the rate means nothing,
unless it is only warmed up."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many connections with so many requests in flight on each."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections}x{self.in_flight}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one broker did under one load; CPU is in cores."""

    messages_per_s: float
    p50_us: float
    p99_us: float
    server_cpu: float
    server_us_per_request: float
    generator_cpu: float
    others_cpu: float
    """Of all other processes, and what the host kept for itself: should be near zero."""
    refused: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of the measured window, and how many requests succeeded before, in and after."""

    figures: Figures
    answered_in_all: int


@cache
def _generator(name: str) -> Path:
    """Compile a generator once per run."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadError("the load generator needs a C compiler; install gcc or clang")
    # Beside the stores it would be taken for one that was left behind.
    program = Path(_build_folder()) / name
    command = [compiler, "-O2", "-o", str(program), str(_FOLDER / f"{name}.c")]
    subprocess.run(command, check=True)
    return program


@cache
def _build_folder() -> str:
    return tempfile.mkdtemp(prefix="roketto-generators-")


def remove_generators() -> None:
    """What was compiled is not needed any more."""
    if _build_folder.cache_info().currsize:
        shutil.rmtree(_build_folder())
        _build_folder.cache_clear()
        _generator.cache_clear()


def put_load(
    server: Server,
    frames: Sequence[bytes],
    load: Load,
    seconds: float,
    *,
    messages: int = 1,
    pulls: bool = False,
    transactions: bool = False,
    refused_share_max: float = REFUSED_SHARE_MAX,
) -> Outcome:
    """Send the frames in turn for so long; each has or brings so many messages.

    Of ``transactions`` each pair of frames is one, and is answered when it is committed.
    """
    kind = _TRANSACTIONS if transactions else messages if pulls else 0
    words = [load.connections, load.in_flight, _RAMP_S, seconds, kind]
    got = _run_generator("broker_load", server, frames, words, (), seconds)
    _check_refused(server, got, refused_share_max)
    return Outcome(_figures(got, messages), int(got["answered_in_all"]))


def send_all(server: Server, frames: Sequence[bytes], load: Load, requests: int) -> int:
    """Send so many requests, the frames in turn; how many were acknowledged."""
    words = [load.connections, load.in_flight, 0, _LONGEST_S, 0]
    got = _run_generator("broker_load", server, frames, words, (requests,), _LONGEST_S)
    return int(got["answered_in_all"])


def deliver(
    server: Server,
    frames: Sequence[bytes],
    queues: int,
    rate: int,
    seconds: float,
    *,
    refused_share_max: float,
) -> Figures:
    """Send at a fixed rate and wait for each message; the frames are the sends, then the polls."""
    words = [rate, queues, _LATENCY_RAMP_S, seconds]
    got = _run_generator("broker_latency", server, frames, words, (), seconds)
    _check_refused(server, got, refused_share_max)
    return _figures(got, 1)


def _figures(got: dict[str, float], messages: int) -> Figures:
    answered, elapsed_s = got["answered"], got["seconds"]
    return Figures(
        messages_per_s=answered * messages / elapsed_s,
        p50_us=got["p50_us"],
        p99_us=got["p99_us"],
        server_cpu=got["server_cpu_s"] / elapsed_s,
        server_us_per_request=got["server_cpu_s"] * 1e6 / max(1, answered),
        generator_cpu=got["generator_cpu_s"] / elapsed_s,
        others_cpu=got["others_cpu_s"] / elapsed_s,
        refused=int(got["refused"]),
    )


def _check_refused(server: Server, got: dict[str, float], share_max: float) -> None:
    answered, refused = got["answered"], got["refused"]
    if refused > share_max * (answered + refused):
        raise BrokerFailedError(
            f"{server.kind} refused {refused} of {answered + refused} requests as too busy"
        )


def _run_generator(
    name: str,
    server: Server,
    frames: Sequence[bytes],
    words: Sequence[float],
    last: Sequence[float],
    seconds: float,
) -> dict[str, float]:
    """Run a generator against a broker; its processes are what the generator looks at."""
    host, _, port = server.address.rpartition(":")
    pids = ",".join(map(str, server.pids()))
    command = [str(_generator(name)), host, port, *map(str, words), pids, *map(str, last)]
    done = subprocess.run(
        command,
        input=b"".join(frames),
        capture_output=True,
        timeout=seconds + _SPARE_S,
        check=False,
    )
    if done.returncode != 0:
        raise BrokerFailedError(f"{server.kind}: {done.stderr.decode(errors='replace').strip()}")
    got: dict[str, float] = json.loads(done.stdout)
    return got
