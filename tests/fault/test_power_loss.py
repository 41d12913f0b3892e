"""Power loss under SYNC_FLUSH (F5): every acknowledged message survives, the store always opens.

Each seed is one life of a store on a disk in memory: messages are appended and acknowledged, a few
more are appended whose sync never came, and the power goes. Every unsynced sector, length and name
is then kept, dropped or garbled on its own. The seed is in the name of the test. ASYNC_FLUSH is
the matter of test_power_loss_async.py; test_power_loss_at_every_call.py leaves nothing to chance.
"""

import threading
from datetime import UTC
from pathlib import Path
from random import Random

import pytest

from checker import Found, QueueRead, check
from evidence import Evidence, Place
from fault.appender import body_of, properties_of, value_of
from roketto.protocol.record import Record, decode_records
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

SETTINGS = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_slots=20, index_entries=100,
    is_flush_sync=True, append_crc=True, flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
ROOT = Path("/store")
QUEUES = 3
SEEDS = 500
SEEDS_PER_TEST = 50
WAIT_S = 10.0


class Life:
    """One store from its first message to the power loss, and what it told its producers."""

    settings = SETTINGS
    queues = QUEUES

    def __init__(self, seed: int, *, acknowledge_early: bool = False) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.now_ms = 1_700_000_000_000
        self.told = threading.Semaphore(0)
        self.evidence = Evidence()
        self._acknowledge_early = acknowledge_early

    def tick(self) -> int:
        self.now_ms += self.random.randrange(20_000)
        return self.now_ms

    def make(self, files: CrashFiles) -> Store:
        return Store(
            ROOT, self.settings, files=files, clock_ms=self.tick, zone=UTC,
            on_flushed=lambda offset: self.told.release(),
        )  # fmt: skip

    def append(self, store: Store) -> tuple[str, Place, int]:
        """The value that was appended, its place, and up to where the log must be flushed."""
        value = f"{self.seed}-{len(self.evidence)}"
        queue_id = self.random.randrange(self.queues)
        self.evidence.send(value, "producer", f"T/{queue_id}")
        where = store.append(Record("T", body_of(value), properties_of(value), queue_id))
        return value, Place(f"T/{queue_id}", where.queue_offset, where.message_id), where.end

    def work(self, files: CrashFiles, tick_chance: float, unsafe_max: int) -> Store:
        """Append messages that become safe, and then fewer than ``unsafe_max`` that do not."""
        store = self.make(files)
        store.open(1)
        for _ in range(self.random.randrange(1, 40)):
            value, place, end = self.append(store)
            while store.flushed < end:
                assert self.told.acquire(timeout=WAIT_S)
            store.advance()
            self.evidence.ok(value, place)
            if self.random.random() < tick_chance:
                store.tick()
        assert store._flusher is not None
        store._flusher.request = lambda: None  # type: ignore[method-assign]
        for _ in range(self.random.randrange(unsafe_max)):
            value, place, _ = self.append(store)
            if self._acknowledge_early:
                self.evidence.ok(value, place)
        return store

    def live(self) -> CrashFiles:
        """Run until the power goes; return what the disk shows afterwards."""
        files = CrashFiles()
        store = self.work(files, tick_chance=0.1, unsafe_max=8)
        if self.random.random() < 0.3:
            store.tick()
        after = files.crash(self.seed, keep=self.random.random(), garble=0.3)
        store.close()
        return after

    def check(self, files: CrashFiles) -> None:
        """Open the store again and compare it with what was told."""
        store = self.make(files)
        store.open(2)
        try:
            reads = [QueueRead("store", f"T/{n}", read_queue(store, n)) for n in range(self.queues)]
            lost = {"things lost": files.loss.total}
            check(self.evidence, reads, faults=lost).raise_if_bad()
            self.check_found(reads)
            _, _, end = self.append(store)
            store.request_flush()
            while store.flushed < end:
                assert self.told.acquire(timeout=WAIT_S)
        finally:
            store.close()

    def check_found(self, reads: list[QueueRead]) -> None:
        """What else must be true of what is left; for other lives than these."""


def read_queue(store: Store, queue_id: int) -> list[Found]:
    found: list[Found] = []
    offset = 0
    while (result := store.get("T", queue_id, offset, 32)).count:
        for view in result.views:
            for record in decode_records(view, strict=True):
                value = value_of(bytes(record.body))
                found.append(Found(record.queue_offset, value, record.offset_id))
        offset = result.next_offset
    return found


def run(seeds: range, *, acknowledge_early: bool = False) -> int:
    """Run some lives; return how much of what was written the power losses took."""
    discarded = 0
    for seed in seeds:
        life = Life(seed, acknowledge_early=acknowledge_early)
        after = life.live()
        discarded += after.loss.total
        try:
            life.check(after)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return discarded


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_nothing_acknowledged_is_lost(first: int) -> None:
    """500 seeds: present at its acknowledged offset, nothing made up, and the store goes on."""
    assert run(range(first, first + SEEDS_PER_TEST)) > 0, "no power loss has taken anything"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(SEEDS, 20_000, 1_500))
def test_nothing_acknowledged_is_lost_in_many_more_lives(first: int) -> None:
    """The long tier: 20,000 seeds in all."""
    run(range(first, min(first + 1_500, 20_000)))


def test_acknowledging_before_the_sync_is_noticed() -> None:
    """The planted bug: this test can see a lost message."""
    with pytest.raises(AssertionError, match=r"lost [1-9]"):
        run(range(100), acknowledge_early=True)
