"""#9654, #7641: a timer message of the largest size could not be read, and stopped all others.

What is added to a message while it waits had made it larger than the room that there was for it.
"""

from roketto.store.put_status import PutRefusedError
from unit.broker.send_rig import SendRig
from unit.broker.test_timers import bodies, send, work

LARGEST = 100_000


def send_largest(rig: SendRig) -> None:
    """Send a message whose body and properties are as long as they may be."""
    for chars in range(32_767, 32_000, -1):
        try:
            send(rig, 15_000, b"x" * LARGEST, KEYS="k" * chars)
        except PutRefusedError:
            continue
        return
    raise AssertionError("nothing was taken")


def test_a_message_of_the_largest_size_comes_and_stops_no_other(timed: SendRig) -> None:
    """It rolls on the way, too: whatever is noted on it then must not make it too large."""
    timed.store.log.limit_messages(LARGEST)
    timed.config.timer_roll_window_slot = 4
    send(timed, 15_000, b"before")
    send_largest(timed)
    send(timed, 15_000, b"after")
    for _ in range(15):
        work(timed)
        timed.pass_ms(1_000)
    work(timed)
    assert bodies(timed) == [b"before", b"x" * LARGEST, b"after"]
