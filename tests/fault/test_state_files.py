"""Small state files torn (F10): the last or the new version is found, and never nothing in silence.

Five tables and the checkpoint are saved while the power goes at every call; whatever was not synced
is kept, dropped or garbled on its own, from a seed. Then each table is damaged in every way that
power loss, file systems and people have damaged RocketMQ's: cut anywhere, empty, zeros, garbage.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.record import Record
from roketto.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import CorruptStoreError, StoreError
from roketto.store.files import Files
from roketto.store.filter_table import ConsumerFilter, FilterTable
from roketto.store.group_table import GroupTable
from roketto.store.jsonfile import JsonFile, Loaded
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.store import Store, StoreSettings
from roketto.store.table import Table
from roketto.store.topic_table import TopicTable
from sim.disk import CrashDisk
from sim.files import CrashFiles, PowerLoss

CONFIG: Final = Path("/store/config")
STEPS_MAX: Final = 60
CRASHES: Final = [
    (seed, keep, garble)
    for seed, (keep, garble) in enumerate(
        [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), *[(0.5, 0.0)] * 4, *[(0.5, 0.5)] * 4]
    )
]
"""Everything unsynced dropped, garbled, kept; then some of each."""


# --- the files ----------------------------------------------------------------------------------


class State:
    """One kind of file, holding a version: a number that is in every entry of it."""

    name: str

    def save(self, files: Files, version: int) -> None:
        """Load what is there, change all of it to ``version`` and save that."""
        raise NotImplementedError

    def load(self, files: Files) -> tuple[int | None, str | None]:
        """The version that is found, None if there is none, and what was said of it."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


class TableState(State):
    """A table; ``put`` gives ``count`` entries a version, ``get`` the versions of all entries."""

    def __init__(
        self,
        kind: Callable[[Files, Path], Table[Any]],
        put: Callable[[Any, int, int], None],
        get: Callable[[Any], Iterator[int]],
        count: int,
    ) -> None:
        self.name = kind(Files(), CONFIG).path.name
        self.count = count
        self._kind = kind
        self._put = put
        self._get = get

    @property
    def path(self) -> Path:
        return CONFIG / self.name

    @property
    def backup(self) -> Path:
        return CONFIG / f"{self.name}.bak"

    def change(self, table: Table[Any], version: int, count: int) -> bytes:
        for number in range(1, count + 1):
            self._put(table, number, version)
        return table.text()

    def text(self, version: int, count: int) -> bytes:
        return self.change(self._kind(Files(), CONFIG), version, count)

    def save(self, files: Files, version: int) -> None:
        table = self._kind(files, CONFIG)
        table.load()
        self.change(table, version, self.count)
        assert table.save_if_changed()

    def load(self, files: Files) -> tuple[int | None, str | None]:
        table = self._kind(files, CONFIG)
        problem = table.load()
        versions = set(self._get(table))
        assert len(versions) <= 1, f"{self.name} is a mixture of versions {versions}"
        return (versions.pop() if versions else None), problem


class CheckpointState(State):
    """The checkpoint, which needs no backup: without it, recovery starts at the beginning."""

    name = "checkpoint"

    def save(self, files: Files, version: int) -> None:
        save_checkpoint(files, CONFIG / self.name, Checkpoint(*[version] * 6))

    def load(self, files: Files) -> tuple[int | None, str | None]:
        found = load_checkpoint(files, CONFIG / self.name, 1_000_000)
        versions = {found.physic_timestamp, found.index_timestamp, found.logics_physical_offset}
        assert len(versions) == 1, f"the checkpoint is a mixture of versions {versions}"
        return versions.pop() or None, None


def put_topic(table: TopicTable, number: int, version: int) -> None:
    table.put(TopicConfig(topic_name=f"Topic{number}", read_queue_nums=version))


def put_group(table: GroupTable, number: int, version: int) -> None:
    table.put(SubscriptionGroupConfig(group_name=f"Group{number}", retry_max_times=version))


def put_filter(table: FilterTable, number: int, version: int) -> None:
    table.put(ConsumerFilter(client_version=version, consumer_group=f"G{number}", topic="T"))


def offsets_of(table: ConsumeOffsetTable) -> Iterator[int]:
    for pair in table.pairs():
        yield from table.offsets(*pair).values()


TABLES: Final = [
    TableState(
        TopicTable, put_topic, lambda t: (c.read_queue_nums for c in t.topics.values()), 10
    ),
    TableState(
        GroupTable, put_group, lambda t: (c.retry_max_times for c in t.groups.values()), 8
    ),
    TableState(
        ConsumeOffsetTable, lambda t, n, v: t.put(f"T{n % 9}", "Group", n, v), offsets_of, 200
    ),
    TableState(
        DelayOffsetTable, lambda t, n, v: t.put(n, v), lambda t: iter(t.offsets.values()), 300
    ),
    TableState(FilterTable, put_filter, lambda t: (f.client_version for f in t), 10),
]  # fmt: skip
by_table = pytest.mark.parametrize("state", TABLES, ids=str)
by_state = pytest.mark.parametrize("state", [*TABLES, CheckpointState()], ids=str)


def disk() -> CrashFiles:
    files = CrashFiles()
    files.make_directory(CONFIG)
    return files


# --- power loss at every call of a save ---------------------------------------------------------


class Outcome(NamedTuple):
    """What the power losses of one check did, and what was found after them."""

    calls: int
    discarded: int
    found: set[int | None]


def check_save(state: State, before: Callable[[CrashFiles], int | None]) -> Outcome:
    """Make a disk with a version (or none), lose power at each call of saving the next one.

    The file is then that of before or the new one, and goes on from there.
    """
    discarded = 0
    seen: set[int | None] = set()
    for step in range(1, STEPS_MAX):
        files = disk()
        old = before(files)
        new = (old or 0) + 1
        files.fail_call(len(files.calls) + step, PowerLoss())
        try:
            state.save(files, new)
            allowed: set[int | None] = {new}
        except PowerLoss:
            allowed = {old, new}
        for seed, keep, garble in CRASHES:
            after = files.crash(seed, keep=keep, garble=garble)
            discarded += after.loss.total
            found = check_found(
                state, after, allowed, f"call {step}, seed {seed}, {keep}, {garble}"
            )
            seen.add(found)
        if not files.hits:
            return Outcome(step - 1, discarded, seen)
    raise AssertionError(f"saving {state} took more than {STEPS_MAX} calls")


def check_found(state: State, after: CrashFiles, allowed: set[int | None], when: str) -> int | None:
    main = after.read(CONFIG / state.name)
    found, problem = state.load(after)
    assert found in allowed, f"{state} is version {found} and not one of {allowed} after {when}"
    if main != b"{":  # the damage that some begin with
        assert problem is None, f"{state} was torn after {when}: {problem}"
    else:
        assert problem is not None, f"{state} was damaged and nobody said so after {when}"
    state.save(after, 1000)
    assert state.load(after) == (1000, None), f"{state} does not go on after {when}"
    return found


def saved_twice(state: State) -> Callable[[CrashFiles], int]:
    def before(files: CrashFiles) -> int:
        state.save(files, 1)
        state.save(files, 2)
        return 2

    return before


@by_state
def test_a_save_that_loses_power_leaves_the_last_or_the_new_version(state: State) -> None:
    """At every call of it; once it has returned, the new one."""
    outcome = check_save(state, saved_twice(state))
    assert outcome.calls >= 5
    assert outcome.discarded >= 20
    assert outcome.found == {2, 3}


@by_state
def test_the_first_save_that_loses_power_leaves_one_or_none(state: State) -> None:
    """There was nothing before, so nothing may be found; but not half of it."""
    outcome = check_save(state, lambda files: None)
    assert outcome.discarded >= 10
    assert outcome.found == {None, 1}


@by_table
def test_a_save_over_a_damaged_file_never_costs_the_backup(state: TableState) -> None:
    """It is the only sound copy then."""

    def before(files: CrashFiles) -> int:
        files.replace(state.backup, state.text(2, state.count))
        files.replace(state.path, b"{")
        return 2

    outcome = check_save(state, before)
    assert outcome.discarded >= 20
    assert outcome.found == {2, 3}


def skip_sync(self: CrashDisk, descriptor: int) -> None:
    """The planted bug of whoever trusts the system to write in order."""


def write_in_place(self: Files, path: Path, data: bytes, *, keep_previous: bool = False) -> None:
    """The planted bug of whoever wants no temporary file."""
    self._write_small(path, data)
    self.sync_directory(path.parent)


@by_state
def test_a_save_without_syncing_the_file_is_noticed(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the name is there before the data."""
    monkeypatch.setattr(CrashDisk, "sync", skip_sync)
    with pytest.raises((AssertionError, CorruptStoreError)):
        check_save(state, saved_twice(state))


@by_state
def test_a_save_without_syncing_the_directory_is_noticed(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: it returns, and the old version comes back."""

    sync_names = CrashDisk.sync_names
    is_planted = False

    def sync_names_until_planted(self: CrashDisk, directory: Path) -> None:
        if directory != CONFIG or not is_planted:
            sync_names(self, directory)

    def before(files: CrashFiles) -> int:
        nonlocal is_planted
        is_planted = False
        version = saved_twice(state)(files)
        is_planted = True
        return version

    monkeypatch.setattr(CrashDisk, "sync_names", sync_names_until_planted)
    with pytest.raises(AssertionError, match=r"is version 2 and not one of \{3\}"):
        check_save(state, before)


@by_state
def test_a_save_in_place_is_noticed(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: half of the file is the new one when the power goes."""
    monkeypatch.setattr(Files, "replace", write_in_place)
    with pytest.raises((AssertionError, CorruptStoreError)):
        check_save(state, saved_twice(state))


# --- damaged files ------------------------------------------------------------------------------


def damaged(text: bytes, other: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Everything that the main file may have become; ``other`` is the text of another table."""
    random = Random(seed)
    for size in range(1, len(text)):
        yield f"cut at {size}", text[:size]
    yield "empty", b""
    yield "null", b"null"
    yield "an empty object", b"{}"
    yield "another table", other
    yield "zeros", bytes(len(text))
    yield "padded", text + bytes(100)
    yield "an old end behind it", text + text[-40:]
    yield "a sector of zeros", text[:100] + bytes(512) + text[612:]
    yield "utf-16", text.decode().encode("utf-16")
    for number in range(50):
        start = random.randrange(len(text) - 20)
        garbage = random.randbytes(random.randrange(20, 600))
        yield f"garbage {number} of seed {seed}", text[:start] + garbage
        yield f"garbage {number} inside", text[:start] + garbage + text[start + len(garbage) :]


def damages_of(state: TableState) -> list[tuple[str, bytes]]:
    others = [other for other in TABLES if other is not state]
    seed = TABLES.index(state)
    return list(damaged(state.text(2, 3), others[0].text(2, 3), seed))


def check_damage(state: TableState, backup: bytes | None) -> None:
    """Load each damaged file: the backup and a word about it, or an error that names both."""
    for what, main in damages_of(state):
        files = disk()
        files.replace(state.path, main)
        if backup is not None:
            files.replace(state.backup, backup)
        try:
            found, problem = state.load(files)
        except CorruptStoreError as error:
            found, problem = None, str(error)
        if backup in (None, b"{"):
            assert problem is not None, f"{what}: version {found} out of nothing"
            assert "restore one of the files, or remove both" in problem, what
        else:
            assert problem is not None, f"{what}: nobody said so"
            assert found == 1, f"{what}: {problem}"
        assert str(state.path) in problem
        assert (backup is None and "there is no backup" in problem) or str(state.backup) in problem
        assert files.read(state.path) == main, f"{what}: the evidence is gone"
        assert files.read(state.backup) == backup


@by_table
def test_a_damaged_file_is_replaced_by_the_version_before_and_reported(state: TableState) -> None:
    """Cut at every byte, and in all the other ways."""
    check_damage(state, state.text(1, 3))


@by_table
@pytest.mark.parametrize("backup", [None, b"{"], ids=["no backup", "damaged backup"])
def test_damage_without_a_sound_backup_stops_the_start(
    state: TableState, backup: bytes | None
) -> None:
    """With one kind of error, which says what to do; never with an empty table."""
    check_damage(state, backup)


load_json_file = JsonFile.load


def start_empty(self: JsonFile[Any]) -> Loaded[Any] | None:
    """The planted bug: what 5.x does where there is no backup."""
    try:
        return load_json_file(self)
    except CorruptStoreError:
        return None


def test_starting_empty_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what cannot be read counts as nothing."""
    monkeypatch.setattr(JsonFile, "load", start_empty)
    with pytest.raises(AssertionError, match="out of nothing"):
        check_damage(TABLES[0], None)


# --- consume offsets over many crashes ----------------------------------------------------------


class Consumer:
    """Commits the same offset of many queues, saves, loses power, and starts again."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.files = disk()
        self.saved = [0, 0]
        """The last two saves that returned."""
        self.committed = 0
        self.discarded = 0

    def live(self, calls: int | None) -> None:
        """Start, and commit and save until the power goes after so many calls, or in between."""
        table = ConsumeOffsetTable(self.files, CONFIG)
        table.load()
        self.committed = table.get("T", "G", 0) or 0
        self.saved = [self.committed, self.committed]
        if calls is not None:
            self.files.fail_call(len(self.files.calls) + calls, PowerLoss())
        with suppress(PowerLoss):
            for _ in range(self.random.randrange(2, 6)):
                self.committed += self.random.randrange(1, 100)
                for queue_id in range(60):
                    table.put("T", "G", queue_id, self.committed)
                assert table.save_if_changed()
                self.saved = [self.saved[-1], self.committed]
        crash = self.random.randrange(1 << 30)
        self.files = self.files.crash(crash, keep=self.random.random(), garble=0.3)
        self.discarded += self.files.loss.total

    def check(self, problem_expected: bool) -> None:
        """What is found is at least what was saved last, or the time before, and no mixture."""
        table = ConsumeOffsetTable(self.files, CONFIG)
        problem = table.load()
        assert (problem is not None) == problem_expected, f"seed {self.seed}: {problem}"
        found = table.get("T", "G", 0) or 0
        assert set(offsets_of(table)) <= {found}, f"seed {self.seed}: a mixture"
        least = self.saved[0 if problem_expected else 1]
        assert least <= found <= self.committed, f"seed {self.seed}: {least}, {found}"

    def damage(self) -> None:
        path = CONFIG / "consumerOffset.json"
        main = self.files.read(path)
        assert main is not None
        self.files.replace(path, main[: self.random.randrange(len(main))])


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_consume_offsets_that_were_saved_are_there_after_power_loss(first: int) -> None:
    """A hundred seeds of eight power losses each, at any call: not one save is lost."""
    discarded = 0
    for seed in range(first, first + 25):
        consumer = Consumer(seed)
        for _ in range(8):
            consumer.live(consumer.random.randrange(1, 50))
            consumer.check(False)
        discarded += consumer.discarded
    assert discarded > 50


def test_consume_offsets_go_back_by_one_save_if_the_file_is_damaged() -> None:
    """Torn between two starts, again and again: that of the save before, and never further."""
    for seed in range(30):
        consumer = Consumer(seed)
        for _ in range(8):
            consumer.live(None)
            consumer.damage()
            consumer.check(True)


def test_offsets_that_are_saved_without_a_sync_are_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: this test can see a lost save."""
    monkeypatch.setattr(CrashDisk, "sync", skip_sync)
    with pytest.raises((AssertionError, CorruptStoreError)):
        test_consume_offsets_that_were_saved_are_there_after_power_loss(0)


# --- the checkpoint -----------------------------------------------------------------------------

ROOT: Final = Path("/store")
SETTINGS: Final = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_slots=20, index_entries=100
)
MESSAGES: Final = 60


def filled_store() -> CrashFiles:
    """A store of several segments after a clean stop."""
    files = CrashFiles()
    store = Store(ROOT, SETTINGS, files=files, zone=UTC)
    store.open(1)
    for number in range(MESSAGES):
        store.append(Record("T", b"%d" % number))
    store.close()
    return files


def damaged_checkpoints(text: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "none", None
    for size in (*range(0, 230, 3), 4_000):
        yield f"cut at {size}", text[:size]
    yield "zeros", bytes(len(text))
    for at in range(0, 240, 8):
        for value in (bytes(8), b"\x7f" * 8, (1_000).to_bytes(8)):
            yield f"{value.hex()} at {at}", text[:at] + value + text[at + 8 :]
    for seed in range(40):
        random = Random(seed)
        yield f"garbage of seed {seed}", random.randbytes(len(text))
        at = random.randrange(300)
        spoilt = text[:at] + random.randbytes(8) + text[at + 8 :]
        yield f"garbage inside of seed {seed}", spoilt


def check_checkpoints(is_crash: bool) -> None:
    """Open the store with each damaged checkpoint: all messages are there, the next one follows."""
    files = filled_store()
    text = files.read(ROOT / "checkpoint")
    assert text is not None
    if is_crash:
        files.replace(ROOT / "abort", b"1")
    for what, damage in damaged_checkpoints(text):
        found = files.crash(0, keep=1.0)
        found.remove(ROOT / "checkpoint")
        if damage is not None:
            found.replace(ROOT / "checkpoint", damage)
        store = Store(ROOT, SETTINGS, files=found, zone=UTC)
        try:
            store.open(2)
            assert store.append(Record("T", b"next")).queue_offset == MESSAGES, what
            assert store.get("T", 0, MESSAGES - 20, 32).count == 21, what
        except StoreError as error:
            error.add_note(what)
            raise
        finally:
            store.close()


@pytest.mark.parametrize("is_crash", [False, True], ids=["clean stop", "crash"])
def test_a_damaged_checkpoint_costs_no_message(is_crash: bool) -> None:
    """Nor does it stop the start: recovery begins earlier, and that is all."""
    check_checkpoints(is_crash)


def test_believing_a_damaged_checkpoint_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: its checksum fits whatever it says."""
    monkeypatch.setattr("roketto.store.checkpoint.zlib", SimpleNamespace(crc32=lambda data: 0))
    with pytest.raises((AssertionError, StoreError)):
        check_checkpoints(True)
