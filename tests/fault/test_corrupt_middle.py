"""A flipped bit in what was safe (F8): nothing behind it is ever cut off without a word.

One bit is turned anywhere in the synced part of a log, after a kill and after a clean stop. Where
opening reads it, the error names file and byte of the record, and the files stay as they are.
Where it does not, the store opens with everything else, and a check of the log names it.
"""

from random import Random

import pytest

from fault.small_store import LOG, SETTINGS, Known, SmallStore, copy, flip, segment_path
from roketto.protocol.errors import RecordError
from roketto.store import recovery
from roketto.store.errors import CorruptStoreError
from roketto.store.logscan import LogScan
from sim.files import CrashFiles

SEEDS = 200


class Damage:
    """A log of three segments: first with queues and index synced, then the log alone, then not."""

    def __init__(self) -> None:
        self.rig = SmallStore().open()
        self._fill(4_096)
        self.rig.sync()
        self.derived = self.rig.end
        self._fill(3 * 4_096)
        self.rig.flush()
        self.flushed = self.rig.end
        self.killed_known = list(self.rig.known)
        for _ in range(2):
            self.rig.append()
        self.killed = self.rig.image()
        self.rig.close()
        self.stopped = self.rig.image()

    def _fill(self, end: int) -> None:
        while self.rig.end < end:
            self.rig.append(("plain", "bare", "ipv6", "batch")[len(self.rig.known) % 4])

    def record_with(self, byte: int) -> Known | None:
        found = [it for it in self.rig.known if it.log_offset <= byte < it.end]
        return found[0] if found else None

    def run(self, seed: int, *, is_clean: bool) -> bool:
        """Turn one bit and open the store; whether that was refused."""
        chance = Random(seed)
        byte = chance.randrange(self.flushed)
        files = copy(self.stopped if is_clean else self.killed)
        flip(files, byte, 1 << chance.randrange(8))
        before = log_bytes(files)
        try:
            after = self.rig.reopen(files)
        except CorruptStoreError as error:
            self.check_refused(error, byte)
            assert log_bytes(files) == before, "a refused log was changed"
            return True
        assert after.end >= self.flushed, f"{self.flushed - after.end} safe bytes were cut"
        assert log_bytes(files)[: self.flushed] == before[: self.flushed]
        assert is_clean or byte < self.derived or self.record_with(byte) is None, "not seen"
        damaged = self.record_with(byte)
        if damaged is not None:
            assert find_damage(after) == damaged.log_offset
        after.close()
        return False

    def check_refused(self, error: CorruptStoreError, byte: int) -> None:
        damaged = self.record_with(byte)
        begin = (
            damaged.log_offset
            if damaged
            else max(it.end for it in self.rig.known if it.end <= byte)
        )
        assert (error.path, error.offset) == (segment_path(begin), begin % SETTINGS.segment_bytes)
        assert "Nothing was cut" in str(error)


def log_bytes(files: CrashFiles) -> bytes:
    return b"".join(files.read(LOG / name) or b"" for name in files.names(LOG))


def find_damage(rig: SmallStore) -> int | None:
    """Read the whole log as a check does; where the first record lies that is not sound."""
    segments = rig.store._segments
    at = 0
    while at < rig.end:
        segment = segments.find(at)
        try:
            stored = LogScan().read(segments.view(segment), at - segment.start, at, True)
        except RecordError:
            return at
        at = segment.end if stored is None else at + stored.size
    return None


def run(damage: Damage, seeds: range) -> tuple[int, int]:
    """How many bits were turned after a kill, and how many of these stores were refused."""
    refused = 0
    for seed in seeds:
        try:
            refused += damage.run(seed, is_clean=False)
            assert not damage.run(seed, is_clean=True), "a clean start reads nothing"
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return len(seeds), refused


def test_a_flipped_bit_in_the_safe_part_cuts_nothing_silently() -> None:
    """200 bits, each after a kill and after a clean stop."""
    done, refused = run(Damage(), range(SEEDS))
    assert 0 < refused < done, "some are read when the store is opened, and some are not"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_more_flipped_bits_cut_nothing_silently() -> None:
    """The long tier: 10,000 bits."""
    run(Damage(), range(SEEDS, 10_000))


def test_a_missing_segment_of_the_safe_part_is_an_error() -> None:
    """The last file that was synced is gone, or all of them: that is no end of the log."""
    damage = Damage()
    for image in (damage.killed, damage.stopped):
        files = copy(image)
        for name in reversed(files.names(LOG)):
            files.remove(LOG / name)
            with pytest.raises(CorruptStoreError, match="this file is missing") as caught:
                damage.rig.reopen(files)
            assert caught.value.path == LOG / name


def test_cutting_at_any_damage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug, which is Java's way: what follows the damage is cut without a word."""

    def cut_always(self: recovery.Recovery, scan: object, *_: object) -> int:
        return 1

    monkeypatch.setattr(recovery.Recovery, "_check_end", cut_always)
    damage = Damage()
    with pytest.raises(AssertionError, match="safe bytes were cut"):
        run(damage, range(SEEDS))
