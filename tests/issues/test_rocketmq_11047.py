"""#11047: when a message could not be put into the wheel, those before it were put there again."""

import pytest

from roketto.broker.timer_intake import ENQUEUE_TURN_MAX
from unit.broker.send_rig import SendRig
from unit.broker.test_timers import bodies, send, work


def test_a_failure_in_the_middle_of_a_turn_doubles_nothing(
    timed: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel takes every tenth message only when it is tried once more."""
    add = type(timed.timer_store).add
    calls = 0

    def add_or_fail(*what: int) -> None:
        nonlocal calls
        calls += 1
        if calls % 10 == 0:
            raise OSError("no file can be made")
        add(*what)  # type: ignore[arg-type]

    monkeypatch.setattr(type(timed.timer_store), "add", add_or_fail)
    count = ENQUEUE_TURN_MAX
    for number in range(count):
        send(timed, 5_000, b"%d" % number)
    failures = 0
    for _ in range(count):
        try:
            timed.timers.step()
        except OSError:
            failures += 1
    assert failures > 10
    assert timed.timer_store.pending == timed.timers.metrics.count("T") == count
    timed.pass_ms(5_000)
    work(timed)
    assert bodies(timed) == [b"%d" % number for number in range(count)]
