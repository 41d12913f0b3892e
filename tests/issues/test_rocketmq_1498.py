"""#1498: after power loss the broker did not start until somebody had overwritten delayOffset.json.

It happened whenever messages had been sent before: then the file is saved every few seconds.
"""

from contextlib import suppress
from pathlib import Path

from roketto.store.delay_table import DelayOffsetTable
from sim.files import CrashFiles, PowerLoss

CONFIG = Path("/store/config")


def test_no_power_loss_between_many_saves_makes_anybody_touch_the_file() -> None:
    """At each of the first hundred calls, on the disk that the power loss before has left."""
    files = CrashFiles()
    files.make_directory(CONFIG)
    safe = discarded = 0
    for number in range(1, 101):
        table = DelayOffsetTable(files, CONFIG)
        assert table.load() is None, f"power loss {number} has torn the file"
        found = table.get(1) or 0
        assert found >= safe, f"power loss {number} has taken a save back"
        safe = found
        files.fail_call(len(files.calls) + number, PowerLoss())
        with suppress(PowerLoss):
            for offset in range(found + 1, found + 20):
                for level in range(1, 200):
                    table.put(level, offset)
                table.save_if_changed()
                safe = offset
        assert len(files.hits) == 1
        files = files.crash(number, keep=number % 4 / 4, garble=0.5)
        discarded += files.loss.total
    assert discarded > 50
    assert safe > 100
