"""The file of a large table is what it would be if all of it were written anew."""

from pathlib import Path

from roketto.protocol.bodies.topics import TopicConfig
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from roketto.store.jsonfile import encode_table
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.topic_table import TopicTable
from roketto.store.unknown_members import merge_unknown

NAMES = [f"T{number}" for number in range(10)]


def written_anew(table: TopicTable) -> bytes:
    return encode_table(merge_unknown(table.body, table._unknown))


def make(folder: Path) -> TopicTable:
    table = TopicTable(Files(), folder)
    for name in NAMES:
        table.put(TopicConfig(topic_name=name, attributes={"a": 'x"{}[],\n\t'}))
    return table


def test_the_text_follows_every_change(tmp_path: Path) -> None:
    """Of entries that came, changed, went and came again, in the order of the table."""
    table = TopicTable(Files(), tmp_path)
    assert table.text() == written_anew(table)
    table = make(tmp_path)
    assert table.text() == written_anew(table)
    table.put(TopicConfig(topic_name="T3", perm=4))
    table.put(TopicConfig(topic_name="T99"))
    table.remove("T4")
    assert table.text() == written_anew(table)
    table.remove("T3")
    table.put(TopicConfig(topic_name="T3", perm=2))
    assert table.text() == written_anew(table)
    assert list(table.topics)[-1] == "T3"
    for name in list(table.topics):
        table.remove(name)
    assert table.text() == written_anew(table)


def test_what_is_unknown_stays_with_its_entry(tmp_path: Path) -> None:
    """Of the table and of its entries, also where it looks like the table itself."""
    make(tmp_path).save_if_changed()
    path = tmp_path / "topics.json"
    text = path.read_bytes()
    text = text.replace(b'"perm":6', b'"other":{"topicConfigTable":{}},"perm":6')
    text = text.replace(b'{\n\t"dataVersion"', b'{"aa":{"topicConfigTable":{}},"dataVersion"')
    path.write_bytes(text)
    table = TopicTable(Files(), tmp_path)
    assert table.load() is None
    table.put(TopicConfig(topic_name="T1", perm=4))
    assert table.text() == written_anew(table)
    assert table.text().count(b'"other":') == len(NAMES)
    table.remove("T1")
    table.put(TopicConfig(topic_name="T1"))
    assert table.text().count(b'"other":') == len(NAMES) - 1
    assert table.text() == written_anew(table)


def test_the_texts_are_made_some_at_a_time(tmp_path: Path) -> None:
    """As many as are asked for; none while there is nothing to save."""
    make(tmp_path).save_if_changed()
    table = TopicTable(Files(), tmp_path)
    table.load()
    assert table.prepare(1)
    assert not table._maps[0]._texts
    table.put(TopicConfig(topic_name="T0", perm=4))
    table.remove("T1")
    assert not table.prepare(9)
    assert len(table._maps[0]._texts) == 8
    assert table.prepare(9)
    table.put(TopicConfig(topic_name="T0", perm=2))
    assert table.text() == written_anew(table)


def test_both_maps_of_the_offsets_are_written_some_entries_at_a_time(tmp_path: Path) -> None:
    """The topics of each group follow the offsets, and only groups that changed are written."""
    table = ConsumeOffsetTable(Files(), tmp_path)
    for number in range(4):
        table.put(f"T{number}", f"G{number % 2}", 0, 7)
    table.put("T0", "G2", 0, 7)
    while not table.prepare(1):
        pass
    assert table.prepare(1)
    table.put("T9", "G1", 0, 7)
    table.remove_group("G0")
    assert not table.prepare(9)
    assert [list(each.stale) for each in table._maps] == [[], ["G0", "G1"]]
    text = table.text()
    assert text == encode_table(table.body)
    assert b'"groupTopicMap":{\n\t\t"G1":[\n\t\t\t"T1",\n\t\t\t"T3",\n\t\t\t"T9"\n' in text
    table.put("T9", "G1", 0, 8)
    assert table.text() == encode_table(table.body)


def test_a_small_table_needs_no_preparation(tmp_path: Path) -> None:
    """It is written in one go."""
    table = DelayOffsetTable(Files(), tmp_path)
    table.put(1, 7)
    assert table.prepare(1)
    assert table.save_if_changed()
