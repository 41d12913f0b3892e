"""Thousands of queues take a bounded number of descriptors and maps, whatever is done with them."""

import os
from pathlib import Path

import pytest

from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.files import DESCRIPTORS_MAX
from roketto.store.store import Store, StoreSettings

QUEUES = 3_000
OTHERS_MAX = 32
"""Files that are not those of queues: log, index, checkpoint, lock, and what is synced just now."""
WAIT_S = 60.0

_FOUND = Path("/proc/self")


class Census:
    """The most descriptors and maps of a store's files that were there at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.descriptors_most = 0
        self.maps_most = 0

    def take(self) -> None:
        descriptors = sum(map(self._is_ours, (_FOUND / "fd").iterdir()))
        maps = (_FOUND / "maps").read_text().count(f" {self._root}/")
        self.descriptors_most = max(self.descriptors_most, descriptors)
        self.maps_most = max(self.maps_most, maps)

    def _is_ours(self, descriptor: Path) -> bool:
        try:
            return descriptor.readlink().is_relative_to(self._root)
        except FileNotFoundError:  # closed in the meantime, as that of the listing itself
            return False


def message(number: int) -> Record:
    properties = encode_properties({"UNIQ_KEY": f"U{number}"})
    return Record(f"Topic{number // 8}", b"%d" % number, properties, number % 8)


@pytest.mark.skipif(not (_FOUND / "maps").exists(), reason="only Linux tells what is open")
def test_descriptors_and_maps_stay_far_below_the_number_of_queues(tmp_path: Path) -> None:
    """While all queues are written, flushed, synced, read, and written once more."""
    root = tmp_path.resolve() / "store"
    settings = StoreSettings(
        segment_bytes=1 << 20, queue_file_bytes=2_000, index_slots=1_000, index_entries=20_000
    )
    now_ms = 1_700_000_000_000
    store = Store(root, settings, clock_ms=lambda: now_ms)
    store.open(os.getpid())
    census = Census(root)
    try:
        for turn in range(2):
            for number in range(QUEUES):
                store.append(message(number))
                if not number % 250:
                    census.take()
            now_ms += 60_000  # a round of syncs is due
            has_more = True
            while has_more:
                has_more = store.tick()
                census.take()
            assert store._worker is not None
            while not store._worker.wait_idle(0.01):
                census.take()
            store.tick()
            assert store._worker.wait_idle(WAIT_S)
            for number in range(QUEUES):
                found = store.get(f"Topic{number // 8}", number % 8, turn, 32)
                assert (found.count, found.next_offset) == (1, turn + 1)
                del found  # its views keep the log mapped
                if not number % 250:
                    census.take()
        census.take()
    finally:
        store.close()
    assert len(list((root / "consumequeue").glob("*/*/*"))) == QUEUES, "not all were flushed"
    # The kept ones are all in use: what is counted is what there is.
    assert DESCRIPTORS_MAX <= census.descriptors_most <= DESCRIPTORS_MAX + OTHERS_MAX
    assert 1 < census.maps_most <= OTHERS_MAX
    assert DESCRIPTORS_MAX + OTHERS_MAX < QUEUES // 4
    end = Census(root)
    end.take()
    assert (end.descriptors_most, end.maps_most) == (0, 0), "not all was given back"
