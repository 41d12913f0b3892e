"""The name server against Java's, in one run: route requests, start, memory."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.peer import PLAIN, Peer
from load import LoadResult, call_and_hold, measure, resident_mb
from roketto.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from roketto.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.namesrv import RegisterBrokerRequest
from servers import name_server

LOADS = ((1, 1), (1, 16), (1, 64), (64, 1), (64, 16))
"""Connections and requests in flight on each. One connection shows the round trip first, and the
server only once enough is in flight: all three stay, whichever looks best."""

_TOPICS = 100
_TOPIC = "TopicTest"
_WARM_UP_S = 3.0
_STARTS = 5
_JAVA_HEAP_MB = 512


@dataclass(frozen=True, slots=True)
class Started:
    """A name server under test."""

    address: str
    pid: int
    start_s: float


@contextmanager
def roketto_name_server() -> Iterator[Started]:
    """Start ours as a user would, until its banner says that it serves."""
    with (
        tempfile.TemporaryDirectory(prefix="roketto-bench-") as folder,
        name_server(Path(folder)) as server,
    ):
        yield Started(server.address, server.popen.pid, server.start_s)


@contextmanager
def java_name_server(version: str) -> Iterator[Started]:
    """Start Java's with the flags that its users run it with and a heap that suits a laptop."""
    with Peer(version, flags=PLAIN) as peer:
        started_s = time.perf_counter()
        server = peer.name_server(heap_mb=_JAVA_HEAP_MB)
        taken_s = time.perf_counter() - started_s
        yield Started(server.address, server.process.pid, taken_s)


def route_request() -> Command:
    return Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": _TOPIC})


def registration() -> Command:
    """A broker with a hundred topics announces itself."""
    topics = [_TOPIC, *(f"{_TOPIC}{number}" for number in range(1, _TOPICS))]
    wrapper = TopicConfigAndMappingSerializeWrapper(
        data_version=DataVersion(timestamp=1),
        topic_config_table={
            name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)
            for name in topics
        },
    )
    header = RegisterBrokerRequest(
        broker_name="broker-a",
        broker_addr="127.0.0.1:10911",
        cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
        heartbeat_timeout_ms=3_600_000,
    )
    body = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    return Command(RequestCode.REGISTER_BROKER, encode_header(header), body)


def measure_start(repeats: int = _STARTS) -> float:
    """Seconds from typing the command to the banner, the median of several starts."""
    taken = []
    for _ in range(repeats):
        with roketto_name_server() as server:
            taken.append(server.start_s)
    return statistics.median(taken)


def compare(version: str, seconds: float, warm_up_s: float, rounds: int) -> dict[str, object]:
    """Measure both servers in turn under the same loads; each figure is the median of its rounds.

    Both run all the time, and only one has work: minutes apart, a shared machine is another one.
    """
    with (
        java_name_server(version) as java,
        roketto_name_server() as ours,
        call_and_hold(java.address, registration()) as register_java,
        call_and_hold(ours.address, registration()) as register_ours,
    ):
        _load(java, (64, 4), warm_up_s)
        _load(ours, (64, 4), _WARM_UP_S)
        loads = {}
        for load in LOADS:
            register_java()  # as a broker does every 30 s: an idle connection is closed
            register_ours()
            loads[f"{load[0]}x{load[1]}"] = _compare_load(java, ours, load, seconds, rounds)
        return {
            "java_version": version,
            "loads": loads,
            "start_s": {"roketto": measure_start(), "java": java.start_s},
            "resident_mb": {"roketto": resident_mb(ours.pid), "java": resident_mb(java.pid)},
        }


def _compare_load(
    java: Started, ours: Started, load: tuple[int, int], seconds: float, rounds: int
) -> dict[str, object]:
    pairs = [(_load(java, load, seconds), _load(ours, load, seconds)) for _ in range(rounds)]
    ratios = sorted(mine.requests_per_s / theirs.requests_per_s for theirs, mine in pairs)
    theirs, mine = sorted(pairs, key=lambda pair: pair[1].requests_per_s / pair[0].requests_per_s)[
        len(pairs) // 2
    ]
    return {
        "roketto": mine.as_dict(),
        "java": theirs.as_dict(),
        "ratio": mine.requests_per_s / theirs.requests_per_s,
        "ratios": ratios,
    }


def _load(server: Started, load: tuple[int, int], seconds: float) -> LoadResult:
    connections, in_flight = load
    return measure(
        server.address,
        route_request(),
        connections=connections,
        in_flight=in_flight,
        seconds=seconds,
        server_pid=server.pid,
    )
