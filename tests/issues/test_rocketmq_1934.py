"""#1934, #7077: progress of delayed messages that lay beyond their queue was set to its end.

After a change of the master or a loss of the log's end, what came there was then passed by, or all
of it was delivered again.
"""

from pathlib import Path

import pytest

from unit.broker.send_rig import SendRig
from unit.broker.test_delays import bodies, deliver, restart, send


@pytest.mark.parametrize("ahead", [1, 77, 1 << 40])
def test_progress_beyond_the_queue_loses_and_doubles_nothing(tmp_path: Path, ahead: int) -> None:
    """What was delivered is found by its copies; what was not comes when it is due."""
    rig = SendRig(tmp_path / "store")
    rig.delays.start()
    for number in range(5):
        send(rig, 1, b"%d" % number)
    rig.pass_ms(1_000)
    deliver(rig)
    for number in range(5, 10):
        send(rig, 1, b"%d" % number)
    rig.delay_table.put(1, 10 + ahead)
    assert rig.delay_table.save_if_changed()
    restart(rig)
    assert deliver(rig) == 1.0
    assert len(bodies(rig)) == 5
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"%d" % number for number in range(10)]
    rig.close()
