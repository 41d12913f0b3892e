"""RocketMQ's own benchmark programs run against the broker without a single failure."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from interop.broker.clients import Clients, eventually
from interop.broker.cluster import Cluster
from interop.peer import JavaProcess, Peer

REPORT_S = 60.0
"""They report for the first time after ten seconds of their own."""


@contextmanager
def benchmark(peer: Peer, program: str, *arguments: str) -> Iterator[JavaProcess]:
    process = peer.start_benchmark(program, *arguments)
    try:
        yield process
    finally:
        process.kill()


on_5_5 = pytest.mark.parametrize(
    "peer",
    [pytest.param("5.5.0", marks=[pytest.mark.peer, pytest.mark.xdist_group("peer-5.5.0")])],
    indirect=True,
)


@on_5_5
def test_benchmark_programs_run_without_a_failure(
    peer: Peer, cluster: Cluster, clients: Clients
) -> None:
    """Producer, BatchProducer and Consumer, all at once, until each has told its figures."""
    clients.make_topic("Benchmark", 8, [cluster.main.address])
    common = ["-n", cluster.name_server, "-t", "Benchmark", "-w", "4", "-ri", "1000"]
    with ExitStack() as running:
        consumer = running.enter_context(benchmark(peer, "Consumer", *common))
        single = running.enter_context(benchmark(peer, "Producer", *common, "-s", "1024"))
        batches = running.enter_context(benchmark(peer, "BatchProducer", *common, "-b", "16"))
        for process in (single, batches, consumer):
            await_figures(process)
            assert set(figures(process, r"Fail(?:ed)?")) == {0}
        for process in (single, batches):
            assert "Exception" not in process.log.read_text(), process.log_tail()


@on_5_5
def test_the_benchmark_of_transactions_runs_without_a_failure(
    peer: Peer, cluster: Cluster, clients: Clients
) -> None:
    """TransactionProducer, some of whose transactions are rolled back or first known when the
    broker asks; it is asked about no other, and what is committed is consumed.
    """
    common = ["-n", cluster.name_server, "-t", "Transactions", "-w", "4", "-ri", "1000"]
    rates = ["-sr", "0.1", "-su", "0.1", "-cr", "0.2", "-i", "2"]
    with ExitStack() as running:
        # Of one that asks after a second, an end that is late on a busy machine is asked about.
        patient = cluster.start("broker-c", {"transactionTimeOut": "6000"})
        running.callback(cluster.kill, "broker-c")
        clients.make_topic("Transactions", 8, [patient.address])
        consumer = running.enter_context(benchmark(peer, "Consumer", *common))
        producer = running.enter_context(
            benchmark(peer, "TransactionProducer", *common, *rates, "-s", "1024")
        )
        for process in (producer, consumer):
            await_figures(process)
        eventually(lambda: max(figures(producer, r"\| Check")) > 0, "a question", REPORT_S)
        for name in ("Send Failed", "UnexpectedCheck", "DuplicatedCheck"):
            assert set(figures(producer, name)) == {0}, producer.log_tail()
        assert set(figures(consumer, r"Fail(?:ed)?")) == {0}
        assert "Exception" not in producer.log.read_text(), producer.log_tail()


def await_figures(process: JavaProcess) -> None:
    """Wait for a report of something done, and for its end.

    Nothing may be done in the first one: a JVM starts slowly on a busy machine, and the consumer
    may wait for its second heartbeat, 30 s after the first (ClientSettings says why).
    """
    name = process.name.rpartition(".")[2]
    eventually(lambda: max(figures(process, "TPS"), default=0) > 0, f"work of {name}", REPORT_S)
    reports = process.log.read_text().count("Current Time")
    eventually(
        lambda: len(figures(process, r"Fail(?:ed)?")) >= reports, f"a report of {name}", REPORT_S
    )


def figures(process: JavaProcess, name: str) -> list[int]:
    """All figures of this name that a program has printed so far.

    Warnings come in between, also within a line: "Send Failed: 07:53:26.712 WARN" is no figure.
    """
    printed = process.log.read_text()
    return [int(found) for found in re.findall(rf"{name}: *(\d+)(?![\d:])", printed)]
