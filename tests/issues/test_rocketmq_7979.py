"""#7979, #7381, #10019: the count of waiting messages went below zero, or up for ever.

A recall counted -1 whether or not there was something to recall, and messages that were due within
milliseconds were taken from a count that they had never been added to.
"""

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import bodies, flush, recall, restart, send, work


def test_what_waits_is_counted_right_whatever_is_recalled(timed: SendRig) -> None:
    """Recalls of something, of nothing and of another slot, what is due at once, and kills."""
    for number in range(6):
        send(timed, 5_000, b"%d" % number, UNIQ_KEY=f"A{number}")
    send(timed, 3, b"soon")
    for key in ("A0", "A1", "A1", "nobody", "no one"):
        recall(timed, 5_000, key)
    recall(timed, 9_000, "A5")
    counts = []
    for second in range(12):
        work(timed)
        flush(timed)
        if second % 3 == 0:
            restart(timed)
        counts.append(timed.timers.metrics.count("T"))
        timed.pass_ms(1_000)
    # A recall counts against what it may find, until its slot has shown what there was.
    assert counts == [1] + [0] * 4 + [-1] * 4 + [0] * 3
    assert sorted(bodies(timed)) == [b"2", b"3", b"4", b"5", b"soon"]
    assert timed.timer_store.pending == 0
