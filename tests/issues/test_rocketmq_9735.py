"""#9735: wheel and checkpoint are not of one moment: what lay between them was lost, or twice.

Java's wheel is a file that changes all the time, flushed after the numbers that speak of it.
"""

import pytest

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import begin, bodies, flush, send, work


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("is_delivering", [False, True])
def test_a_kill_between_any_two_steps_of_a_flush_loses_and_doubles_nothing(
    timed: SendRig, steps: int, is_delivering: bool
) -> None:
    """Units, then the wheel, then the checkpoint: the disk has some of them, of two flushes."""
    for number in range(120):
        send(timed, 1_000 + number % 4 * 1_000, b"%d" % number)
    flush(timed)
    for number in range(120, 240):
        send(timed, 1_000 + number % 7 * 1_000, b"%d" % number)
    if is_delivering:
        timed.pass_ms(2_000)
    work(timed)
    timers = timed.timer_store
    for done, write in enumerate(timers.flush(timers.freeze()), 1):
        if done > steps:
            break
        write()
    timed.kill()
    begin(timed)
    for _ in range(10):
        work(timed)
        timed.pass_ms(1_000)
    work(timed)
    assert sorted(map(int, bodies(timed))) == list(range(240))
    assert timed.timer_store.pending == 0
