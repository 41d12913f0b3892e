"""#7355, #7599: a queue whose last file was lost went on at the wrong place.

The recovery of one kind of log lacked what that of the other had: here there is one.
"""

import pytest

from fault.small_store import ROOT, SmallStore, copy


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_lost_file_of_a_queue_comes_back(is_clean: bool, number: int) -> None:
    """The first, one in the middle, or the last; the next message has the right offset."""
    rig = SmallStore().open()
    for _ in range(50):
        rig.append()
    rig.sync()
    rig.append()
    killed = rig.image()
    rig.close()
    files = copy(rig.files if is_clean else killed)
    directory = ROOT / "consumequeue" / "T" / "0"
    names = files.names(directory)
    assert len(names) == 3
    files.remove(directory / names[number])
    after = rig.reopen(files)
    assert after.recovered is not None
    assert after.recovered.misplaced == 0
    after.check()
    assert after.known[-1].queue_offset == 51
    after.close()
