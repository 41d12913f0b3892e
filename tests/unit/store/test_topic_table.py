"""Topics are kept by name, in Java's file."""

from pathlib import Path

import pytest

from roketto.protocol.bodies.topics import TopicConfig
from roketto.store import topic_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.topic_table import TopicTable

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


def test_topics_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Put, replaced, removed and saved."""
    table = TopicTable(Files(), tmp_path)
    table.put(TopicConfig(topic_name="T", attributes={"message.type": "FIFO"}))
    table.put(TopicConfig(topic_name="T", read_queue_nums=4))
    table.put(TopicConfig(topic_name="U"))
    assert table.remove("U") == TopicConfig(topic_name="U")
    assert table.remove("U") is None
    table.save_if_changed()
    assert (tmp_path / "topics.json").exists()
    again = TopicTable(Files(), tmp_path)
    assert again.load() is None
    assert again.topics == {"T": TopicConfig(topic_name="T", read_queue_nums=4)}
    assert again.get("T") == again.topics["T"]
    assert again.get("U") is None


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_topics_of_a_java_broker_are_read(version: str) -> None:
    """Queues, permissions and, of 5.x, attributes."""
    table = TopicTable(Files(), GOLDEN / version)
    assert table.load() is None
    schedule = table.get("SCHEDULE_TOPIC_XXXX")
    assert schedule is not None
    assert (schedule.read_queue_nums, schedule.perm) == (18, 6)
    assert table.body.data_version.counter > 10
    fifo = table.get("GoldenFifo")
    if version == "5.5.0":
        assert fifo is not None
        assert fifo.attributes == {"message.type": "FIFO"}


def test_a_table_can_have_a_new_version_without_a_change(tmp_path: Path) -> None:
    """Name servers take it as news, and it is saved."""
    table = TopicTable(Files(), tmp_path)
    table.put(TopicConfig(topic_name="T"))
    table.save_if_changed()
    before = table.body.data_version.counter
    table.renew()
    assert table.body.data_version.counter == before + 1
    assert table.save_if_changed()
    assert list(table.topics) == ["T"]


def test_a_table_takes_so_many_topics_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are there can still be changed."""
    monkeypatch.setattr(topic_table, "TOPICS_MAX", 2)
    table = TopicTable(Files(), tmp_path)
    table.put(TopicConfig(topic_name="T"))
    table.put(TopicConfig(topic_name="U"))
    with pytest.raises(TableFullError, match="has 2 entries, at most 2 are taken; remove those"):
        table.put(TopicConfig(topic_name="V"))
    table.put(TopicConfig(topic_name="U", perm=4))
    assert list(table.topics) == ["T", "U"]
