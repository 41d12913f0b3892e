"""Java's wheel counts its slots in ticks: with another timerPrecisionMs they mean other times.

A broker that is started with another precision finds its messages early, late or not at all there.
"""

import pytest

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import begin, bodies, flush, send, work


@pytest.mark.parametrize(("before_ms", "after_ms"), [(1_000, 100), (100, 1_000), (1_000, 10)])
def test_another_precision_delivers_all_and_nothing_early(
    timed: SendRig, before_ms: int, after_ms: int
) -> None:
    """Each once, and later by two slots of the longer precision at the most."""
    timed.close()
    timed.config.timer_precision_ms = before_ms
    timed.now_ms += 337
    timed.open()
    begin(timed)
    delays = range(1_000, 6_000, 321)
    for delay_ms in delays:
        send(timed, delay_ms, b"%d" % delay_ms)
    flush(timed)
    sent_ms = timed.now_ms
    timed.close()
    timed.config.timer_precision_ms = after_ms
    timed.open()
    begin(timed)
    while timed.now_ms < sent_ms + 8_000:
        work(timed)
        timed.pass_ms(10)
    assert sorted(bodies(timed)) == sorted(b"%d" % delay_ms for delay_ms in delays)
    late = [it.store_time_ms - sent_ms - int(bytes(it.body)) for it in timed.records()]
    assert min(late) >= 0
    assert max(late) <= 2 * max(before_ms, after_ms)
