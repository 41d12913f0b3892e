"""What an operator costs those who send: their p99 while somebody asks, and while nobody does."""

import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from broker_admin import Asker
from broker_frames import send_frames
from broker_load import Figures, Load
from broker_requests import ASYNC, SMALL
from broker_rig import QUEUES, TOPIC, Rig
from broker_servers import JAVA, ROKETTO, BrokerFailedError, Server
from report import Report

P99_RATIO_MOST: Final = 1.20

_LOAD: Final = Load(16, 1)
_PAUSE_S: Final = 0.05
"""Between two questions: twenty a second at most, more than a dashboard and an exporter ask."""
_ASKED: Final = (
    "all topics (21)", "runtime (28)", "progress of a group (208)", "one topic (202)",
)  # fmt: skip


def measure_operator(report: Report, rig: Rig) -> None:
    """Both brokers one after the other; of each, rounds with an operator and without, by turns."""
    pair, sizes = rig.pair(ASYNC), rig.sizes
    report.begin(
        "operator",
        f"send of {SMALL} B, {_LOAD}, while an operator asks in turn for {', '.join(_ASKED)} of "
        f"{sizes.admin_topics:,} topics and groups",
    )
    for name, server in ((JAVA, pair.java), (ROKETTO, pair.ours)):
        asker = Asker(server, sizes.admin_topics)
        try:
            with pair.alone(server):
                asker.make()
                _add_ratio(report, rig, name, server, asker)
        finally:
            asker.close()


def _add_ratio(report: Report, rig: Rig, name: str, server: Server, asker: Asker) -> None:
    requests = asker.requests()
    questions = [requests[what] for what in _ASKED]
    quiet: list[Figures] = []
    asked: list[Figures] = []
    counts: list[int] = []
    for number in range(max(2, rig.sizes.rounds)):
        for is_asked in (number % 2 == 0, number % 2 == 1):
            with _operator(questions if is_asked else ()) as count:
                figures = rig.put_load(server, send_frames([TOPIC], QUEUES, SMALL), _LOAD).figures
            (asked if is_asked else quiet).append(figures)
            counts += [len(count)] if is_asked else []
    for what, rounds in (("nobody", quiet), ("an operator", asked)):
        report.add(f"{name}: {what} asks, p99", _median_p99(rounds), "µs")
    ratio = statistics.median(
        with_one.p99_us / max(without.p99_us, 0.1)
        for with_one, without in zip(asked, quiet, strict=True)
    )
    most = P99_RATIO_MOST if name == ROKETTO else None
    report.add(f"{name}: p99 with an operator, of that without", ratio, "x", most=most)
    report.add(f"{name}: questions in a round", statistics.median(counts), "")


def _median_p99(rounds: Sequence[Figures]) -> float:
    return statistics.median(figures.p99_us for figures in rounds)


@contextmanager
def _operator(questions: Sequence[Callable[[], None]]) -> Iterator[list[int]]:
    """Somebody who asks the questions in turn until the block ends; one item for each answer."""
    answered: list[int] = []
    failed: list[Exception] = []
    has_ended = threading.Event()

    def ask() -> None:
        try:
            while not has_ended.wait(_PAUSE_S):
                questions[len(answered) % len(questions)]()
                answered.append(len(answered))
        except (BrokerFailedError, OSError) as error:  # told by the thread that waits
            failed.append(error)

    thread = threading.Thread(target=ask) if questions else None
    if thread is not None:
        thread.start()
    try:
        yield answered
    finally:
        has_ended.set()
        if thread is not None:
            thread.join()
    if failed:
        raise BrokerFailedError(f"an operator got no answer: {failed[0]!r}") from failed[0]
