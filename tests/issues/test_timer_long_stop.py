"""Java's wheel, by its own word: a stop for longer than the wheel has slots loses messages.

What was due before the last seven days is not looked at there when the broker comes back.
"""

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import begin, bodies, flush, send, work


def test_a_stop_for_longer_than_the_wheel_loses_nothing(timed: SendRig) -> None:
    """Three rounds of it: what was due comes at once, in the order of its times; the rest later."""
    wheel_ms = timed.timer_store.wheel.slots * timed.timer_store.precision_ms
    timed.config.timer_max_delay_sec = wheel_ms // 100
    for number in range(5):
        send(timed, (5 - number) * 700_000, b"%d" % number)
    send(timed, 3 * wheel_ms + 5_000, b"later")
    flush(timed)
    timed.kill()
    timed.pass_ms(3 * wheel_ms)
    begin(timed)
    work(timed)
    assert bodies(timed) == [b"4", b"3", b"2", b"1", b"0"]
    timed.pass_ms(4_000)
    work(timed)
    assert len(bodies(timed)) == 5
    timed.pass_ms(1_000)
    work(timed)
    assert bodies(timed)[5:] == [b"later"]
