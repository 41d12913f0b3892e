"""Lives of a driver that is killed again and again, with its executors or after them, and what its
query has written in the end.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fault.broker.site import Site
from fault.spark.counting_query import RUNNING, WINDOW_MS, Job
from integration.admin.admin_rig import make_topic
from integration.spark.topic_content import read_topic
from patience import in_time
from roketto.admin.api import Admin
from roketto.client.message import Message, MessageQueue
from roketto.client.producer import Producer
from roketto.remoting.loop import run
from roketto.spark.cluster import Cluster, close_clusters
from roketto.spark.options import ConnectionOptions

KEYS: Final = 5
STEP_MS: Final = 50
"""From one message to the next: twenty in a second, four of each key."""
START_S: Final = 180.0
"""Whatever is waited for comes long before, also on a machine that does much else."""
LIVES_MAX: Final = 5
"""Drivers in a row that may end by themselves."""
LOG: Final = "driver.log"
LOCAL: Final = "local[2]"
CLUSTER: Final = "local-cluster[2,1,1024]"
EXECUTOR: Final = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
BATCH_COUNT: Final = 500
ROWS_A_BATCH: Final = 400
BROKER_EVERY: Final = 3
COMMIT_EVERY: Final = 2
"""Of so many lives, one in which the broker dies, too, and one after which a commit is gone."""
WAITS: Final = "rocketmq stream: it waits for"
"""What a stream logs whose broker is away."""
_LATER_MS: Final = 3_600_000

_numbers = itertools.count()


@dataclass(slots=True)
class Outcome:
    """What was done, and what was found."""

    driver_kills: int = 0
    late_kills: int = 0
    """Kills of the driver that were to come before the commit of a batch, and came behind it."""
    executor_kills: int = 0
    broker_kills: int = 0
    own_ends: int = 0
    """Drivers that gave up by themselves, as on a busy machine where Spark waits ten seconds for
    a Python worker; they are started again."""
    commits_removed: int = 0
    inputs: int = 0
    counts: int = 0
    """Counts that there have to be."""
    lost: int = 0
    wrong: int = 0
    duplicates: int = 0

    def __str__(self) -> str:
        return (
            f"{self.driver_kills} kills of the driver ({self.late_kills} more came late),"
            f" {self.executor_kills} of executors,"
            f" {self.broker_kills} of the broker,"
            f" {self.own_ends} drivers ended by themselves,"
            f" {self.commits_removed} commits removed; {self.inputs} inputs, {self.counts} counts:"
            f" {self.lost} lost, {self.wrong} wrong, {self.duplicates} twice"
        )


def make_lives(
    names: str, site: Site | None, folder: Path, delivery: str, seed: int, master: str = LOCAL
) -> "KilledDrivers":
    """The lives of a query between two new topics."""
    number = next(_numbers)
    source, target = f"In{number}", f"Out{number}"

    async def make_topics() -> None:
        async with Admin(names) as admin:
            for topic, queues in ((source, 1), (target, 2)):
                await make_topic(admin, topic, queues, brokers=1)

    run(make_topics())
    checkpoint = str(folder / "checkpoint")
    job = Job(names, source, target, delivery, checkpoint, ROWS_A_BATCH, master)
    return KilledDrivers(site, job, seed)


class KilledDrivers:
    """One query through many lives. Without a site its broker is somebody else's, and lives on.

    lives = KilledDrivers(site, job, seed=7)
    lives.live_and_die()                # produces, runs, kills
    outcome = lives.finish()            # the last life ends by itself
    """

    def __init__(self, site: Site | None, job: Job, seed: int) -> None:
        self._site = site
        self._job = job
        self._chance = random.Random(seed)
        self._sent = 0
        self._expected: Counter[tuple[str, int]] = Counter()
        self.outcome = Outcome()

    # --- input ------------------------------------------------------------------------------------

    def produce(self, count: int) -> None:
        """Messages one behind the other in time: none is late whatever a batch holds."""
        bodies = []
        for _ in range(count):
            key, when_ms = f"key{self._sent % KEYS}", self._sent * STEP_MS
            self._expected[key, when_ms - when_ms % WINDOW_MS] += 1
            bodies.append(f"{key} {when_ms}".encode())
            self._sent += 1
        send_all(self._job.name_server, self._job.source, bodies)

    def _close_windows(self) -> None:
        when_ms = self._sent * STEP_MS + _LATER_MS
        send_all(self._job.name_server, self._job.source, [f"end {when_ms}".encode()])

    # --- lives ------------------------------------------------------------------------------------

    def die_often(self, deaths: int) -> None:
        """So many lives; where there are executors one of them dies in each, and the broker and
        commits of the checkpoint with some.
        """
        for life in range(deaths):
            self.live_and_die(
                kills_executor=self._job.master == CLUSTER,
                kills_broker=self._site is not None and life % BROKER_EVERY == 1,
                removes_commit=life % COMMIT_EVERY == 0,
            )

    def live_and_die(
        self,
        *,
        kills_executor: bool = False,
        kills_broker: bool = False,
        removes_commit: bool = False,
    ) -> None:
        """A life that ends with kill -9, some batches and a part of one after its beginning.

        One without an executor goes on before that: another batch is done.
        """
        self.produce(4 * self._job.rows_a_batch)
        wanted = len(self._commits()) + self._chance.randint(0, 2)
        for _ in range(LIVES_MAX):
            with running(self._job) as driver:
                if self._waits_for(driver, lambda: self._is_at(wanted)):
                    time.sleep(self._chance.uniform(0, 0.8))
                    if kills_broker:
                        self._restart_broker()
                    if kills_executor:
                        self._kill_executor(driver)
                    if driver.poll() is None:
                        kill_all(driver, leaves_workers=self._chance.random() < 0.5)
                        self.outcome.driver_kills += 1
                        break
            self.outcome.own_ends += 1
        else:
            raise AssertionError(f"{LIVES_MAX} drivers have ended by themselves: {self._log_end()}")
        if removes_commit and (left := self._commits()):
            self._remove(left[-1])
            self.outcome.commits_removed += 1

    def die_behind_a_write(self) -> None:
        """A life that ends with kill -9 when rows of a batch are in the target, and the batch is
        not committed: whoever comes next has to run it again.
        """
        self.produce(4 * self._job.rows_a_batch)
        for _ in range(LIVES_MAX):
            with running(self._job) as driver, self._rows_of_target() as count_rows:
                watch = WriteWatch(count_rows, lambda: len(self._commits()))
                if not self._waits_for(driver, watch.has_begun):
                    self.outcome.own_ends += 1
                    continue
                kill_all(driver)
            if len(self._commits()) == watch.commits:
                self.outcome.driver_kills += 1
                return
            self.outcome.late_kills += 1
            self.produce(self._job.rows_a_batch)
        raise AssertionError(f"{self.outcome}; {self._log_end()}")

    @contextmanager
    def _rows_of_target(self) -> Iterator[Callable[[], int]]:
        """What tells how many rows the target has, over one connection."""
        connection = ConnectionOptions(name_servers=self._job.name_server)
        cluster = Cluster.of(connection)
        try:
            queues = cluster.queues(self._job.target)
            yield lambda: sum(cluster.max_offsets(queues).values())
        finally:
            close_clusters([connection])

    def live_without_broker(self) -> None:
        """A life in which the broker dies while nothing is to be done, and is back when the stream
        has said that it waits; what is sent then is counted before this life ends.
        """
        assert self._site is not None
        self.produce(2 * self._job.rows_a_batch)
        for _ in range(LIVES_MAX):
            with running(self._job) as driver:
                if not self._waits_for(driver, self._is_idle):
                    self.outcome.own_ends += 1
                    continue
                said = len(self._log_text())
                self._site.kill()
                self.outcome.broker_kills += 1
                assert self._waits_for(driver, lambda: WAITS in self._log_text()[said:])  # noqa: B023
                self._site.start()
                self.produce(2 * self._job.rows_a_batch)
                assert self._waits_for(driver, self._is_idle), self._log_end()
                return
        raise AssertionError(f"{self.outcome}; {self._log_end()}")

    def _is_idle(self) -> bool:
        """Whether all that was sent is in batches that are done, with the one behind them that
        closes windows and reads nothing.
        """
        batches, done = self._log("offsets")[-2:], {path.name for path in self._commits()}
        return len(batches) == 2 and all(
            batch.name in done and self._end_of(batch) == self._sent for batch in batches
        )

    def _end_of(self, batch: Path) -> int:
        """Where a batch ends in the source's only queue."""
        end = json.loads(batch.read_text().splitlines()[-1])
        return int(end["q"][self._job.source]["broker-a"]["0"])

    def _restart_broker(self) -> None:
        assert self._site is not None
        self._site.kill()
        self.outcome.broker_kills += 1
        time.sleep(self._chance.uniform(0, 0.5))
        self._site.start()
        time.sleep(self._chance.uniform(0, 1.5))

    def _kill_executor(self, driver: subprocess.Popen[str]) -> None:
        """kill -9 of one of them, and the time that the query takes to get over it."""
        executors = [process for process, words in processes_of(driver) if EXECUTOR in words]
        assert executors, f"nothing of {self._job.master} runs {EXECUTOR.decode()}"
        done = len(self._commits())
        os.kill(self._chance.choice(executors), signal.SIGKILL)
        if self._waits_for(driver, lambda: len(self._commits()) > done):
            self.outcome.executor_kills += 1
            time.sleep(self._chance.uniform(0, 0.8))

    def finish(self, *, removes_commit: bool = False) -> Outcome:
        """A life that ends by itself, and what is in the target then."""
        self._close_windows()
        self._live_to_the_end()
        if removes_commit:
            self._remove(self._commits()[-1])
            self.outcome.commits_removed += 1
            self._live_to_the_end()
        self._check()
        return self.outcome

    def _live_to_the_end(self) -> None:
        for _ in range(LIVES_MAX):
            with running(replace(self._job, is_last=True)) as driver:
                if driver.wait(START_S) == 0:
                    return
            self.outcome.own_ends += 1
        raise AssertionError(f"{LIVES_MAX} drivers have failed: {self._log_end()}")

    def _log_text(self) -> str:
        """What all drivers have said."""
        return (Path(self._job.checkpoint).parent / LOG).read_text()

    def _log_end(self) -> str:
        return self._log_text()[-4_000:]

    # --- the checkpoint ---------------------------------------------------------------------------

    def _commits(self) -> list[Path]:
        return self._log("commits")

    def _log(self, name: str) -> list[Path]:
        folder = Path(self._job.checkpoint) / name
        found = folder.glob("[0-9]*") if folder.exists() else ()
        return sorted(found, key=lambda path: int(path.name))

    def _is_at(self, wanted: int) -> bool:
        """Whether so many batches are committed and another one has begun."""
        return len(self._commits()) >= wanted and len(self._log("offsets")) > len(self._commits())

    def _remove(self, commit: Path) -> None:
        commit.unlink()
        (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)

    def _waits_for(self, driver: subprocess.Popen[str], is_so: Callable[[], bool]) -> bool:
        """Whether something became so before the driver has ended by itself."""
        deadline = time.monotonic() + START_S
        while not is_so():
            in_time(deadline, f"no batch within {START_S} s: {self._log_end()}")
            if driver.poll() is not None:
                return False
            time.sleep(0.005)
        return True

    # --- output -----------------------------------------------------------------------------------

    def _check(self) -> None:
        found: dict[tuple[str, int], list[int]] = {}
        for message in read_topic(self._job.name_server, self._job.target):
            key, window_ms, count = message.body.decode().split()
            found.setdefault((key, int(window_ms)), []).append(int(count))
        outcome = self.outcome
        outcome.inputs, outcome.counts = self._sent, len(self._expected)
        outcome.lost = len(self._expected.keys() - found.keys())
        outcome.wrong = sum(
            any(count != self._expected[place] for count in counts)
            for place, counts in found.items()
        )
        outcome.duplicates = sum(len(counts) - 1 for counts in found.values())


class WriteWatch:
    """Sees when a batch that is not committed has its first rows in the target."""

    def __init__(self, count_rows: Callable[[], int], count_commits: Callable[[], int]) -> None:
        self.commits = -1
        self._rows = 0
        self._count_rows = count_rows
        self._count_commits = count_commits

    def has_begun(self) -> bool:
        rows, commits = self._count_rows(), self._count_commits()
        if commits > self.commits:  # these rows may be those of that batch
            self.commits, self._rows = commits, self._count_rows()
            return False
        return rows > self._rows


def send_all(names: str, topic: str, bodies: list[bytes]) -> None:
    """Send to the first queue, in order."""

    async def work() -> None:
        queue = MessageQueue("broker-a", 0, topic)
        async with Producer("spark-faults", names) as producer:
            for begin in range(0, len(bodies), BATCH_COUNT):
                some = [Message(topic, body) for body in bodies[begin : begin + BATCH_COUNT]]
                await producer.send_batch(some, queue=queue)

    run(work())


@contextmanager
def running(job: Job) -> Iterator[subprocess.Popen[str]]:
    """A driver in a session of its own, in which its JVM and workers are, too."""
    log = Path(job.checkpoint).parent / LOG
    with log.open("a") as stderr:
        driver = subprocess.Popen(
            job.command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    assert driver.stdout is not None
    try:
        while RUNNING not in (line := driver.stdout.readline()):
            assert line, f"the driver ended before it was ready: {log.read_text()[-4000:]}"
        yield driver
    finally:
        kill_all(driver)
        driver.wait(START_S)
        driver.stdout.close()


def kill_all(driver: subprocess.Popen[str], *, leaves_workers: bool = False) -> None:
    """kill -9 of all processes of the driver's session; Python's workers may see for themselves.

    Those that are left are tasks of a driver that is no more: some go on to write for a moment.
    """
    for process, words in processes_of(driver):
        if not (leaves_workers and b"pyspark.daemon" in words):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def processes_of(driver: subprocess.Popen[str]) -> Iterator[tuple[int, list[bytes]]]:
    """The processes of the driver's session, and the words of their commands."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if os.getsid(int(entry.name)) == driver.pid:
                yield int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            continue
