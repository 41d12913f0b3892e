"""Seen on 5.5.0: one flipped byte in the synced middle of the log cut everything behind it off.

Without a word: the broker starts, and what it has lost is gone for good.
"""

import pytest

from fault.small_store import SmallStore, flip, segment_path
from roketto.store.errors import CorruptStoreError


def test_a_flipped_byte_in_the_middle_is_named_and_nothing_is_cut() -> None:
    """The store does not open; with the byte put back it does, with every message."""
    rig = SmallStore().open()
    for _ in range(20):
        rig.append()
    rig.flush()
    image = rig.image()
    rig.close()
    damaged = rig.known[9]
    flip(image, damaged.log_offset + 100, 0x10)
    with pytest.raises(CorruptStoreError, match="Nothing was cut") as caught:
        rig.reopen(image)
    assert caught.value.path == segment_path(damaged.log_offset)
    assert caught.value.offset == damaged.log_offset
    flip(image, damaged.log_offset + 100, 0x10)
    after = rig.reopen(image)
    after.check()
    after.close()
