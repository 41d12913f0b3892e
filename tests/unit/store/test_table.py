"""A table is saved when it has changed, says when it took its backup, and never grows too large."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from roketto.protocol.bodies.topics import DataVersion, TopicConfig
from roketto.store import table as table_module
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import CorruptStoreError, DiskFullError, TableFullError
from roketto.store.filter_table import FilterTable
from roketto.store.group_table import GroupTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.table import Table
from roketto.store.topic_table import TopicTable
from sim.files import CrashFiles

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
CONFIG = Path("/config")
Kind: TypeAlias = Callable[..., Table[Any]]
KINDS: list[Kind] = [TopicTable, GroupTable, ConsumeOffsetTable, DelayOffsetTable, FilterTable]
by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
NOW_MS = 1_700_000_000_000


def disk() -> CrashFiles:
    files = CrashFiles()
    files.make_directory(CONFIG)
    return files


def topics(files: CrashFiles) -> TopicTable:
    return TopicTable(files, CONFIG, clock_ms=lambda: NOW_MS)


def make(kind: Kind, files: CrashFiles) -> Table[Any]:
    return kind(files, CONFIG, clock_ms=lambda: NOW_MS)


# --- Java's files -------------------------------------------------------------------------------


@by_kind
def test_a_file_of_java_5_is_written_again_byte_for_byte(kind: Kind) -> None:
    """Nothing of it is unknown, so this is our own text in Java's form."""
    files = disk()
    table = make(kind, files)
    text = (GOLDEN / "5.5.0" / table.path.name).read_bytes()
    files.replace(table.path, text)
    assert table.load() is None
    assert not table.is_changed
    assert table.text() == text
    assert table._unknown is None


@by_kind
def test_a_file_of_java_4_says_the_same_after_it_was_saved(kind: Kind) -> None:
    """And has a data version now, where Java 5 has one."""
    files = disk()
    table = make(kind, files)
    files.replace(table.path, (GOLDEN / "4.9.7" / table.path.name).read_bytes())
    assert table.load() is None
    again = make(kind, files)
    files.replace(again.path, table.text())
    assert again.load() is None
    assert again.body == table.body
    assert again.text() == table.text()


@by_kind
def test_members_that_we_do_not_know_are_saved_again(kind: Kind) -> None:
    """Of the table and of everything in it."""
    files = disk()
    table = make(kind, files)
    text = (GOLDEN / "5.5.0" / table.path.name).read_bytes()
    text = text.replace(b'"perm":6', b'"otherThing":{\n\t\t\t\t"a":[]\n\t\t\t},\n\t\t\t"perm":6')
    text = text[:-2] + b',\n\t"zzz":[\n\t\t1,\n\t\t"x"\n\t]\n}'
    files.replace(table.path, text)
    assert table.load() is None
    assert table.text() == text


# --- loading ------------------------------------------------------------------------------------


@by_kind
def test_no_file_is_an_empty_table_with_a_version_of_its_own(kind: Kind) -> None:
    """A first start; the time tells its versions from those of a table that was lost."""
    table = make(kind, disk())
    assert table.load() is None
    assert not table.is_changed
    assert getattr(table.body, "data_version", DataVersion(0, 0, NOW_MS)).timestamp == NOW_MS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is empty"),
        (b"{}", "has no topicConfigTable"),
        (b'{"offsetTable":{}}', "has no topicConfigTable"),
        (b"[]", "expected an object"),
        (b'{"topicConfigTable":{"T\0":{}}}', "a byte 0 at 23"),
        (b'{"topicConfigTable":{"T\xff":{}}}', "no UTF-8 at byte 23"),
        (b'{"topicConfigTable":{}}}', "nothing more"),
        (b'{"topicConfigTable":{}', "the text ends"),
    ],
)
def test_a_file_that_no_broker_wrote_is_damaged(text: bytes, reason: str) -> None:
    """It is not taken for an empty table; alone it is an error, with a backup it is reported."""
    files = disk()
    sound = topics(files)
    sound.put(TopicConfig(topic_name="T"))
    files.replace(sound.path, text)
    with pytest.raises(CorruptStoreError, match=reason):
        topics(files).load()

    files.replace(sound.path.with_name("topics.json.bak"), sound.text())
    table = topics(files)
    problem = table.load()
    assert problem is not None
    assert reason in problem
    assert "/config/topics.json.bak, the version before the last, is used instead" in problem
    assert list(table.topics) == ["T"]


def test_a_table_from_its_backup_is_saved_at_the_next_occasion() -> None:
    """Until then there is only one copy of it; that one stays as it is."""
    files = disk()
    table = topics(files)
    table.put(TopicConfig(topic_name="T"))
    table.save_if_changed()
    table.put(TopicConfig(topic_name="U"))
    table.save_if_changed()
    files.replace(table.path, b"{")
    again = topics(files)
    assert again.load() is not None
    backup = files.read(table.path.with_name("topics.json.bak"))
    assert again.save_if_changed()
    assert files.read(table.path) == files.read(table.path.with_name("topics.json.bak")) == backup
    assert topics(files).load() is None


# --- saving -------------------------------------------------------------------------------------


def test_an_unchanged_table_is_not_written() -> None:
    """Whoever saves every five seconds need not care."""
    files = disk()
    table = topics(files)
    assert not table.save_if_changed()
    table.put(TopicConfig(topic_name="T"))
    assert table.is_changed
    assert table.save_if_changed()
    calls = len(files.calls)
    assert not table.save_if_changed()
    assert len(files.calls) == calls


def test_a_table_that_could_not_be_saved_still_has_changed() -> None:
    """At whatever call the disk was full: the next save writes it all."""
    for number in range(1, 40):
        files = disk()
        table = topics(files)
        table.put(TopicConfig(topic_name="T"))
        table.save_if_changed()
        table.put(TopicConfig(topic_name="U"))
        files.fail_call(len(files.calls) + number, OSError(errno.ENOSPC, "planted"))
        try:
            table.save_if_changed()
        except (DiskFullError, OSError):
            assert len(files.hits) == 1
            assert table.is_changed
            assert table.save_if_changed()
        else:
            assert not files.hits
            assert number > 5
            break
        again = topics(files.crash(number, keep=0.0))
        assert again.load() is None
        assert list(again.topics) == ["T", "U"]
    else:
        pytest.fail("a save never ended")


def test_a_table_larger_than_what_can_be_read_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last one that fits stays on the disk."""
    files = disk()
    table = topics(files)
    table.put(TopicConfig(topic_name="T"))
    table.save_if_changed()
    saved = files.read(table.path)
    monkeypatch.setattr(table_module, "SMALL_BYTES_MAX", 400)
    table.put(TopicConfig(topic_name="U"))
    with pytest.raises(TableFullError, match=r"topics\.json would have \d+ bytes, at most 400 "):
        table.save_if_changed()
    assert table.is_changed
    assert files.read(table.path) == saved


# --- entries ------------------------------------------------------------------------------------


def test_an_entry_that_is_too_large_is_refused() -> None:
    """A topic's attributes come from whoever may create topics."""
    table = topics(disk())
    with pytest.raises(TableFullError, match=r"'T' would have \d+ bytes .* at most 65536 are"):
        table.put(TopicConfig(topic_name="T", attributes={"a": "x" * 65_536}))
    assert not table.is_changed
    assert table.get("T") is None


def test_an_entry_that_could_not_be_read_again_is_a_bug() -> None:
    """It would make the whole file unreadable."""
    table = topics(disk())
    with pytest.raises(AssertionError, match="spoil the whole file"):
        table.put(TopicConfig(topic_name="T", attributes={"half": "\ud800"}))


def test_an_entry_that_was_removed_and_made_again_is_a_new_one() -> None:
    """What a newer broker said of the old one is gone; what it said of the others is not."""
    files = disk()
    files.replace(
        CONFIG / "topics.json",
        b'{"topicConfigTable":{"T":{"new":1,"topicName":"T"},"U":{"new":2,"topicName":"U"}}}',
    )
    table = topics(files)
    assert table.load() is None
    table.put(TopicConfig(topic_name="T", perm=4))
    assert table.text().count(b'"new":') == 2
    table.remove("T")
    table.put(TopicConfig(topic_name="T"))
    assert b'"new":1' not in table.text()
    assert b'"new":2' in table.text()


# --- versions -----------------------------------------------------------------------------------


def test_every_change_is_a_new_version_of_this_moment_and_epoch() -> None:
    """Name servers and slaves look at nothing else to see that something has changed."""
    table = topics(disk())
    table.put(TopicConfig(topic_name="T"))
    table.state_version = 7
    table.put(TopicConfig(topic_name="T"))
    assert table.body.data_version == DataVersion(2, 7, NOW_MS)
    table.remove("T")
    table.remove("T")
    assert table.body.data_version.counter == 3


def test_versions_of_offsets_come_every_so_many_changes() -> None:
    """As in Java; saving does not depend on them."""
    table = DelayOffsetTable(disk(), CONFIG, version_step=3, clock_ms=lambda: NOW_MS)
    for offset in range(8):
        table.put(1, offset)
        assert table.save_if_changed()
    assert table.body.data_version == DataVersion(2, 0, NOW_MS)


def test_versions_go_on_where_the_file_ended() -> None:
    """Across a restart."""
    files = disk()
    table = topics(files)
    for name in ("T", "U", "V"):
        table.put(TopicConfig(topic_name=name))
    table.save_if_changed()
    again = topics(files)
    assert again.load() is None
    again.put(TopicConfig(topic_name="W"))
    assert again.body.data_version.counter == 4
