"""Disk full (F11): no false ack, a reason with path and fullness, reads go on, writes come back.

Once on a real file system of a few megabytes that somebody else fills, and once on a disk in memory
that has no room at just one place: a segment, a queue, the index, the checkpoint, everything.
"""

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from checker import Found, QueueRead, check
from evidence import Evidence, Place
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.store.diskgate import DiskGate
from roketto.store.errors import DiskFullError
from roketto.store.files import Files
from roketto.store.flush import FlushSettings
from roketto.store.index import Index
from roketto.store.jsonfile import JsonFile
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.retention import RetentionSettings
from roketto.store.store import Store, StoreSettings
from sim.disk import Call
from sim.files import CrashFiles
from sim.small_disk import SmallDisk

QUEUES = 3
DISK_BYTES = 16 << 20
CAP_SYS_ADMIN = 21
FILLS = 5
SENDS_MAX = 2_000
"""A full disk is noticed within so many messages, or the fault did not happen."""
TICKS_MAX = 10
"""Writes come back within ten seconds, which is as many ticks."""
WAIT_S = 10.0
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
KEEP_ALL = RetentionSettings(is_forced_enabled=False)


def settings(*, is_sync: bool, retention: RetentionSettings = KEEP_ALL) -> StoreSettings:
    return StoreSettings(
        segment_bytes=16_384, queue_file_bytes=4_000, index_slots=20, index_entries=100,
        is_flush_sync=is_sync, retention=retention,
        flush=FlushSettings(interval_ms=3_600_000 if is_sync else 20, pages_least=1),
    )  # fmt: skip


class Workload:
    """A producer and a consumer of one store, and the evidence of what they were told."""

    def __init__(
        self, root: Path, seed: int, *, files: Files | None = None, is_sync: bool = False
    ) -> None:
        self.root = root
        self.random = Random(seed)
        self.is_sync = is_sync
        self.evidence = Evidence()
        self.refused: list[PutRefusedError] = []
        self.now_ms = NOON_MS
        self.retention = KEEP_ALL
        self._told = threading.Semaphore(0)
        self._sent = 0
        self.open(files)

    def open(self, files: Files | None) -> None:
        self.store = Store(
            self.root, settings(is_sync=self.is_sync, retention=self.retention), files=files,
            clock_ms=lambda: self.now_ms, zone=UTC, on_flushed=lambda offset: self._told.release(),
        )  # fmt: skip
        self.store.open(1)

    def tick(self) -> None:
        """A second goes by, which is enough for whatever the worker has to do."""
        self.now_ms += 1_000
        while self.store.tick():
            pass
        assert self.store._worker is not None
        assert self.store._worker.wait_idle(WAIT_S), "the worker does not end"

    def send(self) -> bool:
        """Send one message; whether it was acknowledged."""
        number = self._sent
        self._sent += 1
        value, queue_id = f"v{number}", self.random.randrange(QUEUES)
        self.evidence.send(value, "producer", f"T/{queue_id}")
        body = f"{value} ".encode() * self.random.randrange(1, 60)
        properties = encode_properties({"UNIQ_KEY": f"U{value}", "TAGS": "t"})
        try:
            where = self.store.append(Record("T", body, properties, queue_id))
        except PutRefusedError as refused:
            self.refused.append(refused)
            self.told_refused(value, queue_id)
            return False
        while self.is_sync and self.store.flushed < where.end:
            assert self._told.acquire(timeout=WAIT_S), "the disk does not answer"
        self.store.advance()
        self.evidence.ok(value, Place(f"T/{queue_id}", where.queue_offset, where.message_id))
        return True

    def told_refused(self, value: str, queue_id: int) -> None:
        self.evidence.fail(value)

    def send_some(self, count: int) -> None:
        for _ in range(count):
            assert self.send(), f"refused on a disk with room: {self.refused[-1]}"
            if self.random.random() < 0.1:
                self.tick()

    def send_until_refused(self, ticks: float) -> PutRefusedError:
        """Send, with so many ticks for each message, until one is refused."""
        for _ in range(SENDS_MAX):
            if not self.send():
                return self.refused[-1]
            if self.random.random() < ticks:
                self.tick()
        raise AssertionError(f"{SENDS_MAX} messages taken: the disk was not full")

    def resume(self) -> int:
        """Let time go by until a message is taken; after how many ticks that was."""
        for ticks in range(1, TICKS_MAX + 1):
            self.tick()
            if self.send():
                return ticks
        raise AssertionError(f"still refused after {TICKS_MAX} s: {self.refused[-1]}")

    # --- reading ----------------------------------------------------------------------------------

    def read(self, reader: str) -> list[QueueRead]:
        return [
            QueueRead(reader, f"T/{queue_id}", list(self._read_queue(queue_id)))
            for queue_id in range(QUEUES)
        ]

    def _read_queue(self, queue_id: int) -> Iterator[Found]:
        offset = 0
        while (result := self.store.get("T", queue_id, offset, 32)).count:
            for view in result.views:
                for record in decode_records(view, strict=True):
                    yield Found(record.queue_offset, bytes(record.body).split()[0].decode())
            offset = result.next_offset

    def check(self, reader: str, *, faults: dict[str, int] | None = None) -> None:
        """Everything that was acknowledged is there: by queue and by key."""
        check(self.evidence, self.read(reader), faults=faults).raise_if_bad(reader)
        unknown = [
            sent.value
            for sent in self.evidence
            if sent.place is not None
            and not self.store.query("T", f"U{sent.value}", 32, 0, 1 << 60)
        ]
        assert not unknown, f"{reader}: not found by key: {unknown[:10]}"

    def check_reads_go_on(self, before: list[QueueRead]) -> None:
        """What could be read when the disk was not full still can."""
        for old, new in zip(before, self.read("while full"), strict=True):
            assert new.found[: len(old.found)] == old.found, f"{old.queue} reads otherwise"

    def reopen(self, files: Files | None) -> None:
        self.store.close()
        self.open(files)


def check_reason(refused: PutRefusedError, root: Path) -> str:
    """The reason names a path of the store and how full its disk is; return which kind it is."""
    reason = refused.reason
    assert str(root) in reason, reason
    assert refused.status in (
        PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.CREATE_MAPPED_FILE_FAILED,
    ), refused.status  # fmt: skip
    if re.search(r"no room for \d+ bytes of .*: \d+ of \d+ bytes are free", reason):
        return "no room"
    assert re.search(r"is \d+ % full, 90 % is the bound", reason), reason
    return "above the warning ratio"


# --- a real file system ---------------------------------------------------------------------------


class Room:
    """Where the store is, with somebody else who may take all the room there."""

    root: Path

    def files(self) -> Files | None:
        """What the store uses; None for the real one."""
        raise NotImplementedError

    def take_all(self) -> None:
        raise NotImplementedError

    def give_back(self) -> None:
        raise NotImplementedError

    @property
    def free_bytes(self) -> int:
        return (self.files() or Files()).usage(self.root).free


class MountedRoom(Room):
    """A file system of its own, and in it a file that takes what is left."""

    def __init__(self, mount: Path) -> None:
        self.root = mount / "store"
        self.root.mkdir()
        self._other = mount / "somebody else's"

    def files(self) -> Files | None:
        return None

    def take_all(self) -> None:
        descriptor = os.open(self._other, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(descriptor, 0, self.free_bytes)
        os.close(descriptor)

    def give_back(self) -> None:
        self._other.unlink()


class SimulatedRoom(Room):
    """The same in memory, where nobody needs to be allowed to mount anything."""

    def __init__(self) -> None:
        self.root = Path("/store")
        self._disk = SmallDisk(DISK_BYTES)
        self._files = CrashFiles(self._disk)

    def files(self) -> Files | None:
        return self._files

    def take_all(self) -> None:
        self._disk.taken_bytes = self._disk.usage(self.root).free

    def give_back(self) -> None:
        self._disk.taken_bytes = 0


def may_mount() -> bool:
    """Whether this process has Linux's CAP_SYS_ADMIN: root has, but not in every container."""
    status = Path("/proc/self/status")
    if not status.exists():
        return False
    [capabilities] = re.findall(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return bool(int(capabilities, 16) >> CAP_SYS_ADMIN & 1)


def mount(directory: Path) -> bool:
    """Mount a small file system; False if this process may not. If it may, it must succeed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "roketto-test", str(directory)]
    return may_mount() and subprocess.run(command, check=True).returncode == 0


@pytest.fixture(params=["mounted", "simulated"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """A small disk."""
    if request.param == "simulated":
        yield SimulatedRoom()
        return
    if not mount(tmp_path):
        pytest.skip("to mount a small file system takes root with CAP_SYS_ADMIN, on Linux")
    try:
        yield MountedRoom(tmp_path)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def run_fills(
    room: Room, fills: int, seed: int, make: Callable[..., Workload] = Workload
) -> dict[str, int]:
    """Fill the disk so many times, check all along, and return what was refused and why."""
    load = make(room.root, seed, files=room.files(), is_sync=seed % 2 == 1)
    kinds: dict[str, int] = {}
    try:
        for fill in range(fills):
            load.send_some(load.random.randrange(20, 60))
            before = load.read("before")
            room.take_all()
            assert room.free_bytes == 0, "the disk is not full"
            # Without ticks it is the system that finds no room, else the ratio is noticed first.
            refused = load.send_until_refused(ticks=0.2 * (fill % 2))
            for _ in range(load.random.randrange(4)):
                kind = check_reason(refused, room.root)
                kinds[kind] = kinds.get(kind, 0) + 1
                load.check_reads_go_on(before)
                load.tick()
                assert not load.send(), "a message was taken by a full disk"
                refused = load.refused[-1]
            room.give_back()
            load.resume()
            load.tick()
            load.check("resumed")
        load.reopen(room.files())
        load.check("reopened", faults=kinds)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        load.store.close()
    return kinds


def test_writes_come_back_after_every_fill_of_a_small_disk(room: Room) -> None:
    """Five fills, by turns found by the system and by the ratio."""
    kinds = run_fills(room, FILLS, seed=11)
    assert kinds.get("no room", 0) > 0, kinds
    assert kinds.get("above the warning ratio", 0) > 0, kinds


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [12, 13])
def test_writes_come_back_after_many_more_fills(room: Room, seed: int) -> None:
    """The long tier: fifty fills, under ASYNC_FLUSH and under SYNC_FLUSH."""
    kinds = run_fills(room, 50, seed)
    assert sum(kinds.values()) > 50, kinds


def test_cleaning_makes_room_without_anybody_else(room: Room) -> None:
    """A producer that never stops: the oldest files go, and it is not refused for long."""
    load = Workload(room.root, seed=21, files=room.files())
    load.store.retention.settings = RetentionSettings(files_per_pass_max=100)  # small ones
    sent = refused_in_a_row = 0
    for _ in range(60_000):
        if load.send():
            sent += 1
            refused_in_a_row = 0
        else:
            check_reason(load.refused[-1], room.root)
            refused_in_a_row += 1
            assert refused_in_a_row <= 2 * TICKS_MAX, load.refused[-1]
            load.tick()
        if sent % 100 == 0:
            load.tick()
        if load.store.retention.segments_removed > 100:
            break
    assert load.store.retention.segments_removed > 100, f"{sent} messages were not enough"
    assert load.store.retention.failure is None
    queue = load.store.queue("T", 0)
    assert queue is not None
    assert 0 < queue.queue_offset_min < queue.queue_offset_max
    ends = {number: load.store.queue("T", number) for number in range(QUEUES)}
    offsets = {number: found.queue_offset_max for number, found in ends.items() if found}
    load.reopen(room.files())
    for number, offset in offsets.items():
        found = load.store.queue("T", number)
        assert found is not None
        assert found.queue_offset_max == offset, "a queue has forgotten how far it was"
    load.store.close()


# --- one place at a time --------------------------------------------------------------------------

ROOT = Path("/store")

PLACES: dict[str, Callable[[Call], bool]] = {
    "segment": lambda call: "commitlog" in call.path.parts and call.name == "reserve",
    "segment name": lambda call: "commitlog" in call.path.parts and call.name == "create",
    "queue directory": lambda call: (
        "consumequeue" in call.path.parts and call.name == "make_directory"
    ),
    "queue file": lambda call: "consumequeue" in call.path.parts and call.name == "create",
    "queue units": lambda call: "consumequeue" in call.path.parts and call.name == "write",
    "index": lambda call: "index" in call.path.parts and call.name == "reserve",
    "index directory": lambda call: "index" in call.path.parts and call.name != "reserve",
    "checkpoint": lambda call: call.path.name.startswith("checkpoint"),
    "everywhere": lambda call: True,
}
FROM_THE_START = frozenset({"queue directory", "index directory"})
"""Places that only the first messages of a store need."""


def run_place(place: str, seed: int, make: Callable[..., Workload] = Workload) -> int:
    """Let there be no room at one place for a while; return how often that was noticed."""
    disk = SmallDisk()
    files = CrashFiles(disk)
    load = make(ROOT, seed, files=files, is_sync=seed % 2 == 1)
    try:
        if place not in FROM_THE_START:
            load.send_some(load.random.randrange(60, 120))
        before = load.read("before")
        disk.refuses = PLACES[place]
        refused = load.send_until_refused(ticks=load.random.choice([0.02, 0.1, 0.5]))
        assert disk.hits, "nobody asked for room"
        assert check_reason(refused, ROOT) == "no room"
        load.check_reads_go_on(before)
        crashed = files.crash(seed, keep=load.random.random()) if load.is_sync else None
        told = deepcopy(load.evidence)
        load.tick()
        disk.refuses = lambda call: False
        load.resume()
        load.send_some(50)
        load.tick()
        load.check("resumed")
        load.reopen(files)
        load.check("reopened")
        load.store.close()
        if crashed is not None:  # the same, had the power gone while the disk was full
            load.evidence = told
            load.open(crashed)
            load.check("after a power loss")
    except BaseException as error:
        error.add_note(f"{place}, seed {seed}")
        raise
    finally:
        load.store.close()
    return len(disk.hits)


@pytest.mark.parametrize("place", PLACES)
def test_no_room_at_one_place_loses_nothing(place: str) -> None:
    """Each place with four seeds, two under SYNC_FLUSH, where the power may go meanwhile, too."""
    for seed in range(4):
        assert run_place(place, seed) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", PLACES)
def test_no_room_at_one_place_loses_nothing_for_many_seeds(place: str) -> None:
    """The long tier: 200 seeds for each place."""
    for seed in range(4, 204):
        run_place(place, seed)


def test_a_message_that_fits_needs_no_room() -> None:
    """A segment has all its space from the start: a full disk takes what fits in the last one."""
    disk = SmallDisk()
    load = Workload(ROOT, 31, files=CrashFiles(disk))
    load.send_some(1)
    disk.refuses = PLACES["everywhere"]
    taken = 0
    while load.send():
        taken += 1
    assert taken > 10
    disk.refuses = lambda call: False
    load.resume()
    load.check("resumed")
    load.store.close()


def test_a_full_disk_costs_one_attempt_for_a_segment_in_a_tick() -> None:
    """Making a gigabyte in vain with every message would stop the broker."""
    disk = SmallDisk()
    load = Workload(ROOT, 32, files=CrashFiles(disk))
    load.send_some(1)
    disk.refuses = PLACES["segment"]
    load.send_until_refused(ticks=0)
    hits = len(disk.hits)
    for _ in range(100):
        load.send()
    assert len(disk.hits) == hits
    load.tick()
    for _ in range(100):
        load.send()
    assert len(disk.hits) <= hits + 2
    load.store.close()


def test_a_table_that_finds_no_room_keeps_its_old_content() -> None:
    """The state files of a broker: the error names the file, and the next attempt succeeds."""
    disk = SmallDisk()
    files = CrashFiles(disk)
    files.make_directory(ROOT / "config")
    path = ROOT / "config" / "topics.json"
    table = JsonFile(files, path, bytes)

    def content() -> bytes:
        loaded = JsonFile(files, path, bytes).load()
        assert loaded is not None
        assert loaded.problem is None
        return loaded.value

    table.save(b"{1}")
    disk.refuses = PLACES["everywhere"]
    with pytest.raises(DiskFullError, match=rf"{path}.* bytes are free"):
        table.save(b"{2}")
    assert disk.hits
    assert content() == b"{1}"
    disk.refuses = lambda call: False
    table.save(b"{2}")
    assert content() == b"{2}"


def test_a_store_that_cannot_be_opened_says_why_and_can_be_opened_later() -> None:
    """No room for the marks of a start: a reason with path and fullness, and nothing is lost."""
    disk = SmallDisk()
    files = CrashFiles(disk)
    load = Workload(ROOT, 33, files=files)
    load.send_some(60)
    load.store.close()
    disk.refuses = PLACES["everywhere"]
    with pytest.raises(DiskFullError, match=r"no room for \d+ bytes of /store/.* bytes are free"):
        load.open(files)
    disk.refuses = lambda call: False
    load.open(files)
    load.check("opened")
    load.store.close()


# --- planted bugs ---------------------------------------------------------------------------------


class Liar(Workload):
    """The planted bug: what was refused is acknowledged."""

    def told_refused(self, value: str, queue_id: int) -> None:
        queue = self.store.queue("T", queue_id)
        offset = queue.queue_offset_max if queue is not None else 0
        self.evidence.ok(value, Place(f"T/{queue_id}", offset))


@pytest.mark.parametrize("run", [lambda make: run_place("segment", 1, make),
                                 lambda make: run_fills(SimulatedRoom(), 1, 1, make)])  # fmt: skip
def test_acknowledging_what_was_refused_is_noticed(
    run: Callable[[Callable[..., Workload]], object],
) -> None:
    """By the checker, as a lost message."""
    with pytest.raises(AssertionError, match="lost"):
        run(Liar)


def test_a_gate_that_never_opens_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each of the two reasons to close it."""
    with monkeypatch.context() as patch:
        patch.setattr(DiskGate, "retry", lambda gate: None)
        with pytest.raises(AssertionError, match="still refused after 10 s"):
            run_place("segment", 2)
    measure = DiskGate.measure

    def only_close(gate: DiskGate, path: Path, percent: int, **bounds: int) -> None:
        if percent > bounds["warning_percent"]:
            measure(gate, path, percent, **bounds)

    monkeypatch.setattr(DiskGate, "measure", only_close)
    with pytest.raises(AssertionError, match="still refused after 10 s"):
        run_fills(SimulatedRoom(), 2, 2)


def forgetful(flush: Callable[[Index], None]) -> Callable[[Index], None]:
    def forget(index: Index) -> None:
        try:
            flush(index)
        except DiskFullError:
            index._forget_waiting()
            raise

    return forget


def test_forgetting_what_waits_for_room_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose keys found no room must be indexed later."""
    monkeypatch.setattr(Index, "flush", forgetful(Index.flush))
    with pytest.raises(AssertionError, match="not found by key"):
        run_place("index", 2)
