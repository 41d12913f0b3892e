"""#9705, #9706: the first save after a start from the backup put both copies at risk.

The main file was damaged, the backup sound. Java overwrote the main file in place, or made the
damaged one the backup; power loss at that moment left no copy at all.
"""

from pathlib import Path

import pytest

from roketto.protocol.bodies.topics import TopicConfig
from roketto.store.topic_table import TopicTable
from sim.files import CrashFiles, PowerLoss

CONFIG = Path("/store/config")
MAIN, BACKUP = CONFIG / "topics.json", CONFIG / "topics.json.bak"


@pytest.mark.parametrize("damage", [b"", b"{", bytes(2000)], ids=["empty", "torn", "zeros"])
def test_one_sound_copy_is_there_at_every_moment_of_the_next_save(damage: bytes) -> None:
    """At every call of it, whatever of the unsynced is kept; and then two."""
    for step in range(1, 60):
        files = CrashFiles()
        files.make_directory(CONFIG)
        table = TopicTable(files, CONFIG)
        for number in range(20):
            table.put(TopicConfig(topic_name=f"Topic{number}"))
        files.replace(BACKUP, table.text())
        files.replace(MAIN, damage)
        table = TopicTable(files, CONFIG)
        assert table.load() is not None
        table.put(TopicConfig(topic_name="New"))
        files.fail_call(len(files.calls) + step, PowerLoss())
        try:
            table.save_if_changed()
        except PowerLoss:
            is_saved = False
        else:
            is_saved = True
            backup = files.crash(0, keep=1.0).read(BACKUP)
            assert backup != damage, "the damaged file has become the backup"
        for seed in range(20):
            after = TopicTable(files.crash(seed, keep=seed / 20, garble=0.5), CONFIG)
            problem = after.load()
            assert after.get("Topic19") is not None, f"step {step}, seed {seed}"
            assert not is_saved or (after.get("New") and problem is None)
        if is_saved:
            assert step > 5
            return
    pytest.fail("the save never ended")
