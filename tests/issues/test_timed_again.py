"""Seen on 5.5.0: timer messages are delivered again, those between its last flush and a kill.

There the wheel is flushed every second, whatever the log has; here what was delivered tells itself.
"""

import random

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import bodies, flush, restart, send, work


def test_kills_between_the_flushes_bring_no_second_copy(timed: SendRig) -> None:
    """Twenty, at moments of their own; after some of them the wheel is behind, after some not."""
    chance = random.Random(7)
    count = 300
    for number in range(count):
        send(timed, chance.randrange(1_000, 15_000), b"%d" % number)
    kills = 0
    for _ in range(20):
        timed.pass_ms(chance.randrange(300, 1_200))
        for _ in range(chance.randrange(1, 6)):
            timed.timers.step()
        if chance.random() < 0.3:
            flush(timed)
        kills += 0 < len(bodies(timed)) < count
        restart(timed)
    timed.pass_ms(60_000)
    work(timed)
    assert kills > 10
    assert sorted(map(int, bodies(timed))) == list(range(count))
    assert timed.timer_store.pending == 0
