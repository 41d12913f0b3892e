"""#7480, #10668: the log lost its unflushed end, and the wheel still spoke of what had been there.

Its offset lay beyond the queue, so that nothing came into the wheel any more; or a unit led to
whatever was stored at that place later.
"""

import shutil

import pytest

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import begin, bodies, flush, send, work


def lose_power(rig: SendRig) -> None:
    """Go on with all files as they are, but for what of the log was not on the disk."""
    end, left = rig.store.flushed, rig.root
    rig.root = left.with_name("after power loss")
    shutil.copytree(left, rig.root)
    [segment] = (rig.root / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.truncate(end)
        file.truncate((left / "commitlog" / segment.name).stat().st_size)
    rig.store.close()
    rig.open()
    begin(rig)


@pytest.mark.parametrize("is_wheel_ahead", [False, True])
@pytest.mark.parametrize("extra", [0, 1, 40])
def test_a_log_that_lost_its_end_takes_and_delivers_messages(
    timed: SendRig, is_wheel_ahead: bool, extra: int
) -> None:
    """Each once and at its time, also where the wheel was flushed before the log, as Java's is."""
    for number in range(3):
        send(timed, 5_000, b"safe%d" % number)
    flush(timed)
    for number in range(6):
        send(timed, 5_000, b"lost%d" % number)
    work(timed)
    if is_wheel_ahead:
        for write in timed.timer_store.flush(timed.timer_store.freeze()):
            write()
    else:
        assert not timed.timers.flush.flush()
    lose_power(timed)
    for number in range(9):
        send(timed, 20_000, b"late%d" % number + bytes(extra))
    for _ in range(19):
        work(timed)
        timed.pass_ms(1_000)
    assert bodies(timed) == [b"safe0", b"safe1", b"safe2"]
    timed.pass_ms(1_000)
    work(timed)
    assert bodies(timed)[3:] == [b"late%d" % number + bytes(extra) for number in range(9)]
