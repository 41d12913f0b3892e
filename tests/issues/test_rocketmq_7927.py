"""#7927, #7923, #8979: a timer message whose delivery failed four times was dropped."""

from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.send_rig import SendRig
from unit.broker.test_timers import bodies, refuse, restart, send, work


def test_a_delivery_is_tried_until_it_succeeds(timed: SendRig) -> None:
    """A store that takes nothing for a hundred tries, before and after a kill."""
    full = PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")
    for number in range(3):
        send(timed, 1_000, b"%d" % number)
    timed.pass_ms(1_000)
    for _ in range(2):
        tried = refuse(timed, *[full] * 100)
        for _ in range(110):
            assert timed.timers.step() <= 0.1
            if len(tried) == 100:
                break
        assert bodies(timed) == []
        assert timed.timer_store.pending == 3
        restart(timed)
    work(timed)
    assert bodies(timed) == [b"0", b"1", b"2"]
