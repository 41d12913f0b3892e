"""Power loss at each system call of a life, in turn (F5): nothing that was called safe is lost.

One small life, under SYNC_FLUSH and under ASYNC_FLUSH: a store is made, filled over the ends of
some segments, flushed, ticked, closed, opened again and closed again. The disk is kept as a power
loss would leave it in front of each call that changes it: with nothing of what was not synced, with
some of it, with all of it. No thread of the store makes a call, so they are the same every time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from checker import QueueRead, check
from evidence import Evidence, Place
from fault.appender import body_of, properties_of
from fault.test_power_loss import QUEUES, ROOT, SETTINGS, read_queue
from roketto.protocol.record import Record
from roketto.store.errors import CorruptStoreError
from roketto.store.flush import Flusher
from roketto.store.store import Store
from sim.disk import CrashDisk
from sim.files import SYNCS, CrashFiles

APPENDS = 24
APPENDS_PER_FLUSH = 3
APPENDS_PER_TICK = 7
CHANGES = frozenset(
    {*SYNCS, "write", "rename", "set_length", "reserve", "make_directory", "remove_file", "link"}
)
"""The calls that change what the disk has, or must keep. In front of any other one, a power loss
leaves what it leaves in front of the next of these."""
FATES = ((0.0, 0.0), (0.5, 0.3), (1.0, 0.0))
"""How much of what was not synced is kept, and how much of the rest is garbled."""


class Sent:
    """One message of the life."""

    def __init__(self, value: str, queue_id: int) -> None:
        self.value = value
        self.queue_id = queue_id
        self.place: Place | None = None
        self.end = 1 << 62
        """Where it ends in the log; unknown while it is appended."""


class Loss:
    """The disk after a power loss, and what had been promised by then."""

    def __init__(self, number: int, name: str, files: CrashFiles, sent: list[Sent], safe: int):
        self.number = number
        self.name = name
        self.files = files
        self.sent = [(it.value, it.queue_id, it.place, it.end) for it in sent]
        self.safe = safe

    def check(self, life: "Life") -> int:
        """Open what is left and compare it; how many messages are missing."""
        store = life.make(self.files)
        store.open(2)
        try:
            reads = [QueueRead("store", f"T/{n}", read_queue(store, n)) for n in range(QUEUES)]
            check(self.evidence(), reads).raise_if_bad()
            left = {found.value for read in reads for found in read.found}
            assert left == {value for value, _, _, _ in self.sent[: len(left)]}, "there is a hole"
            where = store.append(Record("T", b"goes on"))
            flush(store)
            assert store.flushed >= where.end
        finally:
            store.close()
        return len(self.sent) - len(left)

    def evidence(self) -> Evidence:
        evidence = Evidence()
        for value, queue_id, place, end in self.sent:
            evidence.send(value, "producer", f"T/{queue_id}")
            if place is not None and end <= self.safe:
                evidence.ok(value, place)
        return evidence


class WatchedDisk(CrashDisk):
    """Tells the life of each call before it is made."""

    life: "Life | None" = None

    def _called(self, name: str, path: Path, offset: int = 0, size: int = 0) -> int | None:
        if self.life is not None and name in CHANGES:
            self.life.lose_power(name)
        return super()._called(name, path, offset, size)


class Life:
    """See the module; ``losses`` are the disks that were kept."""

    def __init__(self, *, is_sync: bool) -> None:
        self.disk = WatchedDisk()
        self.files = CrashFiles(self.disk)
        self.settings = replace(SETTINGS, is_flush_sync=is_sync)
        self.losses: list[Loss] = []
        self.sent: list[Sent] = []
        self.safe = 0
        """Up to where the log was ever called flushed."""
        self._now_ms = 1_700_000_000_000
        self._store: Store | None = None

    def make(self, files: CrashFiles) -> Store:
        return Store(ROOT, self.settings, files=files, clock_ms=self._tick, zone=UTC)

    def _tick(self) -> int:
        self._now_ms += 3_000
        return self._now_ms

    def live(self) -> None:
        self.disk.life = self
        for _ in range(2):
            store = self._store = self.make(self.files)
            store.open(1)
            assert store._flusher is not None
            store._flusher.request = lambda: None  # type: ignore[method-assign]
            for number in range(1, APPENDS + 1):
                self.append(store)
                if number % APPENDS_PER_FLUSH == 0:
                    flush(store)
                if number % APPENDS_PER_TICK == 0:
                    store.tick()
            flush(store)  # so that the thread finds nothing to do when it ends
            store.close()
        self.lose_power("nothing")
        self.disk.life = None

    def append(self, store: Store) -> None:
        sent = Sent(f"v{len(self.sent)}", len(self.sent) % QUEUES)
        self.sent.append(sent)
        where = store.append(
            Record("T", body_of(sent.value), properties_of(sent.value), sent.queue_id)
        )
        sent.place = Place(f"T/{sent.queue_id}", where.queue_offset, where.message_id)
        sent.end = where.end

    def lose_power(self, name: str) -> None:
        """Keep what the disk would show if the power went now."""
        if self._store is not None and self._store._flusher is not None:  # it is open
            self.safe = max(self.safe, self._store.flushed)
        number = len(self.disk.calls) + 1
        for keep, garble in FATES:
            after = self.files.crash(number, keep=keep, garble=garble)
            self.losses.append(Loss(number, name, after, self.sent, self.safe))

    def check(self) -> Iterator[tuple[Loss, int]]:
        """Each power loss, with how many messages it has taken."""
        for loss in self.losses:
            try:
                yield loss, loss.check(self)
            except BaseException as error:
                error.add_note(f"power lost in front of call {loss.number}, {loss.name}")
                raise


def flush(store: Store) -> None:
    """Sync the log here, and not in a thread."""
    assert store._flusher is not None
    store._flusher._flush(is_wanted=True)
    store.advance()


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
def test_a_power_loss_at_any_call_takes_nothing_that_was_safe(is_sync: bool) -> None:
    """In front of each call; a suffix may be missing, and the store goes on."""
    life = Life(is_sync=is_sync)
    life.live()
    lost = sum(count for _, count in life.check())
    names = Counter(loss.name for loss in life.losses if loss.files.loss.total)
    calls = Counter(call.name for call in life.files.calls)
    print(f"{len(life.losses)} power losses in {calls.total()} calls took {lost}: {names}")
    assert len(life.losses) == len(FATES) * (1 + sum(calls[name] for name in CHANGES))
    assert calls["sync_mapped"] >= 2 * APPENDS // APPENDS_PER_FLUSH
    assert len(life.files.names(ROOT / "commitlog")) > 2, "there was no next segment"
    assert lost > 0, "no power loss has taken anything"
    assert {"sync_mapped", "sync", "sync_names", "write"} <= set(names), names


# --- planted bugs ---------------------------------------------------------------------------------


def test_calling_flushed_what_is_being_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark moves in front of the sync, and not behind it."""
    honest = Flusher._flush

    def flush_early(flusher: Flusher, *, is_wanted: bool) -> None:
        synced, flusher.flushed = flusher.flushed, flusher._target.written
        flusher._target.sync(synced, flusher.flushed)
        honest(flusher, is_wanted=is_wanted)

    monkeypatch.setattr(Flusher, "_flush", flush_early)
    life = Life(is_sync=True)
    life.live()
    with pytest.raises(AssertionError, match=r"lost [1-9](.|\n)*sync_mapped"):
        list(life.check())


def test_a_segment_whose_name_is_not_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is safe, and there is nothing by which to find it."""
    honest = CrashFiles.sync_directory

    def sync_other(files: CrashFiles, directory: Path | str) -> None:
        if Path(directory).name != "commitlog":
            honest(files, directory)

    monkeypatch.setattr(CrashFiles, "sync_directory", sync_other)
    life = Life(is_sync=True)
    life.live()
    with pytest.raises((AssertionError, CorruptStoreError), match=r"lost [1-9]|is missing"):
        list(life.check())
