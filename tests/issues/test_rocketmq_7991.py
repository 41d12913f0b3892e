"""#7991: a message that rolled an odd number of times was delivered although it was recalled.

Each time that messages rolled there, their order was turned round, and the recall came too late.
"""

import pytest

from unit.broker.send_rig import SendRig
from unit.broker.test_timers import begin, bodies, flush, recall, send, work

WINDOW = 10


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("rolls", [1, 2, 3])
@pytest.mark.parametrize("recalled_s", [0, 12])
def test_a_recall_counts_however_often_its_message_has_rolled(
    timed: SendRig, rolls: int, recalled_s: int, is_killed: bool
) -> None:
    """Whenever it comes, with kills in between and without; another message of the slot comes."""
    timed.config.timer_roll_window_slot = WINDOW
    delay_ms = (rolls + 1) * WINDOW * 1_000 + 4_000
    send(timed, delay_ms, b"no", UNIQ_KEY="A")
    send(timed, delay_ms, b"yes", UNIQ_KEY="B")
    for second in range(delay_ms // 1_000 + 2 * WINDOW):
        if second == recalled_s:
            recall(timed, delay_ms - second * 1_000, "A")
        work(timed)
        if is_killed and second % 5 == 3:
            flush(timed)
        if is_killed and second % 7 == 2:
            timed.kill()
            begin(timed)
        timed.pass_ms(1_000)
    assert bodies(timed) == [b"yes"]
    times = timed.record().get_property("TIMER_ROLL_TIMES")
    assert int(times or "0") >= rolls
