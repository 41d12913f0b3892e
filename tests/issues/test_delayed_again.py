"""Seen on 5.5.0 (and #3473, #6984): delayed messages are delivered again after every kill.

Progress is saved every ten seconds there: 2,459 extra copies of 1,657 messages in 20 kills. Real
processes are killed in fault/broker/test_delays.py.
"""

import random
from pathlib import Path

from unit.broker.send_rig import SendRig
from unit.broker.test_delays import bodies, deliver, restart, send
from unit.broker.test_timers import flush_log


def test_kills_in_the_middle_of_delivery_bring_no_second_copy(tmp_path: Path) -> None:
    """Twenty, of which most come between two saves."""
    rig = SendRig(tmp_path / "store", levels="1s 2s 3s 4s 5s 6s 7s 8s")
    rig.delays.start()
    chance = random.Random(11)
    count = 1_000
    for number in range(count):
        send(rig, chance.randrange(1, 9), b"%d" % number)
    kills = saves = 0
    for _ in range(20):
        rig.pass_ms(chance.randrange(100, 500))
        for _ in range(chance.randrange(1, 3)):
            rig.delays.step()
        if chance.random() < 0.3:
            flush_log(rig)
            saves += rig.delays.save()
        kills += 0 < len(bodies(rig)) < count
        restart(rig)
    rig.pass_ms(60_000)
    deliver(rig)
    assert sorted(map(int, bodies(rig))) == list(range(count))
    assert kills > 10
    assert saves > 1
    rig.close()
