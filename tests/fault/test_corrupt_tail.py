"""A corrupt tail (F7): damage to what nobody called safe is found, and costs no record before it.

Every bit of the last record is turned, and up to 64 random bytes are put anywhere behind what was
synced. The checksum over the whole record finds each of them. Seeds are in the failures.
"""

from random import Random

import pytest

from fault.small_store import SETTINGS, SmallStore, copy, flip, segment_path
from roketto.store import logscan, record_check
from roketto.store.dispatch import Stored
from sim.files import CrashFiles

SYNCED = 5
TAIL = 24
"""Records behind the synced end: some 4 KiB, over the end of a segment."""
RANDOM = 700


def life() -> tuple[SmallStore, CrashFiles]:
    rig = SmallStore().open()
    for number in range(SYNCED):
        rig.append("plain", number % 2)
    rig.sync()
    while len(rig.known) < SYNCED + TAIL:
        rig.append(("plain", "bare", "ipv6", "batch")[len(rig.known) % 4])
    rig.append("plain")
    assert len(rig.files.names(segment_path(0).parent)) > 1
    image = rig.image()
    rig.close()
    return rig, image


def check_damaged(rig: SmallStore, files: CrashFiles, damaged: set[int], note: str) -> int:
    """All records before the first damaged byte are there, and none from there on; how many."""
    touched = [
        message
        for message in rig.known
        if not damaged.isdisjoint(range(message.log_offset, message.end))
    ]
    end = min((message.log_offset for message in touched), default=rig.known[-1].end)
    blanks = [byte for byte in damaged if is_blank(rig, byte)]
    whole = [message for message in rig.known if message.end <= min([end, *blanks])]
    after = rig.reopen(files)
    try:
        after.check(whole)
    except BaseException as error:
        error.add_note(note)
        raise
    finally:
        after.close()
    return len(rig.known) - len(whole)


def is_blank(rig: SmallStore, byte: int) -> bool:
    """Whether a byte is one of the eight that end a segment."""
    starts = [
        message.end
        for message, following in zip(rig.known, rig.known[1:], strict=False)
        if message.end != following.log_offset
    ]
    return any(start <= byte < start + 8 for start in starts)


def flip_every_bit(rig: SmallStore, image: CrashFiles) -> int:
    """Turn each bit of the last record on its own: it is gone then, and none other; how many."""
    last = rig.known[-1]
    for byte in range(last.log_offset, last.end):
        for bit in range(8):
            files = copy(image)
            flip(files, byte, 1 << bit)
            note = f"bit {bit} of byte {byte - last.log_offset} of the last record"
            assert check_damaged(rig, files, {byte}, note) == 1, note
    return last.size * 8


def test_every_flipped_bit_of_the_last_record_is_found() -> None:
    """Whichever field it is in."""
    assert flip_every_bit(*life()) > 1_300


def spoil(rig: SmallStore, image: CrashFiles, seed: int) -> int:
    """Put random bytes behind the synced end; how many records that has cost."""
    chance = Random(seed)
    files = copy(image)
    damaged = set()
    begin, end = rig.known[SYNCED].log_offset, rig.known[-1].end + 100
    for _ in range(chance.randrange(1, 65)):
        byte = chance.randrange(begin, end)
        mask = chance.randrange(1, 256)
        if byte not in damaged:
            flip(files, byte, mask)
            damaged.add(byte)
    return check_damaged(rig, files, damaged, f"seed {seed}")


def test_random_bytes_behind_the_synced_end_are_found() -> None:
    """1 to 64 of them, in records, in the blank between two segments and behind the end."""
    rig, image = life()
    assert sum(spoil(rig, image, seed) for seed in range(RANDOM)) > RANDOM


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(RANDOM, 50_000, 10_000))
def test_random_bytes_behind_the_synced_end_are_found_in_many_more_logs(first: int) -> None:
    """The long tier: 50,000 seeds in all."""
    rig, image = life()
    for seed in range(first, min(first + 10_000, 50_000)):
        spoil(rig, image, seed)


def test_skipping_the_checksum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: without it a flipped bit is believed."""
    rig, image = life()
    monkeypatch.setattr(logscan, "_is_whole", lambda *_: True)
    monkeypatch.setattr(record_check, "has_good_crc_property", lambda *_: True)
    with pytest.raises(AssertionError, match=r"queue 0 of T|the log ends at"):
        flip_every_bit(rig, image)


def test_the_checksum_of_the_body_alone_does_not_find_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the CRC property is on by default: records without it can be damaged unseen."""
    assert SETTINGS.append_crc
    rig, image = life()
    read = logscan.LogScan.read

    def read_body_only(
        scan: logscan.LogScan, segment: memoryview, at: int, log_offset: int, has_crc: bool
    ) -> Stored | None:
        return read(scan, segment, at, log_offset, False)

    monkeypatch.setattr(logscan.LogScan, "read", read_body_only)
    with pytest.raises(AssertionError, match=r"queue 0 of T|the log ends at"):
        flip_every_bit(rig, image)
