"""A check finds nothing in a sound store, and in a damaged one exactly the damage."""

import shutil
import struct
from pathlib import Path

import pytest

from roketto.protocol.record_layout import patch_crc_property
from roketto.protocol.sysflags import BORN_HOST_IPV6
from roketto.protocol.tags import tag_code
from roketto.store.mappedfile import MappedFile
from roketto.store.store import Store, StoreSettings
from roketto.storetool.directory import State
from roketto.storetool.findings import Findings
from roketto.storetool.index_files import Layout, OpenIndexFile
from unit.storetool import stores
from unit.storetool.stores import (
    COUNT,
    SEGMENT_BYTES,
    SETTINGS,
    Clock,
    Sent,
    check,
    fingerprint,
    index_path,
    make_store,
    patch,
    queue_path,
    segment_path,
    unit,
)


class Made:
    """A store on the disk, and what is in it."""

    def __init__(self, root: Path, sent: list[Sent]) -> None:
        self.root = root
        self.sent = sent

    def crash(self) -> None:
        (self.root / "abort").write_bytes(b"1")

    def of(self, topic: str, queue_id: int) -> list[Sent]:
        return [it for it in self.sent if (it.topic, it.queue_id) == (topic, queue_id)]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    root = tmp_path / "store"
    return Made(root, make_store(root))


def damages(findings: Findings) -> list[tuple[str, Path, int]]:
    return [(it.kind, it.path, it.offset) for it in findings.kept if it.is_damage]


def notes(findings: Findings) -> list[tuple[str, Path, int]]:
    return [(it.kind, it.path, it.offset) for it in findings.kept if not it.is_damage]


def patch_crc(path: Path, at: int) -> None:
    """Let the checksum of a record cover what was made of it."""
    content = bytearray(path.read_bytes())
    patch_crc_property(memoryview(content), at)
    path.write_bytes(bytes(content))


# --- sound stores ---------------------------------------------------------------------------------


def test_a_sound_store_has_no_findings(made: Made) -> None:
    """Every record, unit and entry is counted as right."""
    checked, findings = check(made.root)
    assert not findings.kept
    assert (checked.state, checked.records, checked.units) == (State.CLEAN, COUNT, COUNT)
    assert checked.entries == 3 * COUNT
    last = made.sent[-1]
    assert (checked.log_end, checked.last_time_ms) == (
        last.log_offset + last.size, last.store_time_ms,
    )  # fmt: skip
    assert len(list((made.root / "commitlog").iterdir())) > 3
    assert len(list((made.root / "consumequeue" / "T" / "0").iterdir())) > 1


def test_checking_changes_nothing(made: Made) -> None:
    """Names, lengths, times and contents are the same afterwards, after a crash, too."""
    before = fingerprint(made.root)
    check(made.root)
    assert fingerprint(made.root) == before
    made.crash()
    before = fingerprint(made.root)
    check(made.root)
    assert fingerprint(made.root) == before


@pytest.mark.parametrize("append_crc", [False, True])
def test_batches_halves_and_bare_messages_are_no_damage(tmp_path: Path, append_crc: bool) -> None:
    """Half messages take no place in a queue but have keys; some messages have none."""
    settings = StoreSettings(
        segment_bytes=SEGMENT_BYTES, queue_file_bytes=400, index_slots=101, index_entries=1_000,
        append_crc=append_crc,
    )  # fmt: skip
    store = Store(tmp_path, settings, clock_ms=Clock())
    store.open(1)
    stores.add_odd_messages(store)
    store.close()
    checked, findings = check(tmp_path)
    assert not findings.kept
    assert (checked.records, checked.units) == (6, 5)


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    """A broker was started and stopped, and nothing was sent."""
    store = Store(tmp_path, SETTINGS)
    store.open(1)
    store.close()
    checked, findings = check(tmp_path)
    assert not findings.kept
    assert (checked.records, checked.log_end) == (0, 0)


def test_a_store_whose_oldest_messages_were_deleted_is_sound(made: Made) -> None:
    """Units and entries lead to what is no longer there, as after every cleaning."""
    (made.root / "commitlog" / f"{0:020d}").unlink()
    checked, findings = check(made.root)
    assert not findings.kept
    assert checked.log_begin == SEGMENT_BYTES
    assert checked.units == sum(it.log_offset >= SEGMENT_BYTES for it in made.sent)


def test_an_index_that_was_never_made_is_a_note(tmp_path: Path) -> None:
    """messageIndexEnable=false."""
    settings = StoreSettings(segment_bytes=SEGMENT_BYTES, queue_file_bytes=400, index_enable=False)
    make_store(tmp_path, settings)
    _, findings = check(tmp_path)
    assert findings.is_clean
    assert [kind for kind, _, _ in notes(findings)] == ["index"]


# --- the log --------------------------------------------------------------------------------------


def test_a_changed_body_is_found(made: Made) -> None:
    """Its record is still one, and its unit and keys are right."""
    victim = made.sent[20]
    path, at = segment_path(made.root, victim.log_offset)
    patch(path, at + 100, lambda old: bytes([old[0] ^ 1]), 1)
    checked, findings = check(made.root)
    assert damages(findings) == [("record", path, at)]
    assert "does not match its CRC" in findings.kept[0].text
    assert checked.records == COUNT


def test_a_change_that_only_the_crc_property_covers_is_found(tmp_path: Path) -> None:
    """The born time is not in the checksum of the body."""
    settings = StoreSettings(
        segment_bytes=SEGMENT_BYTES, queue_file_bytes=400, index_slots=101, index_entries=1_000,
        append_crc=True,
    )  # fmt: skip
    sent = make_store(tmp_path, settings)
    path, at = segment_path(tmp_path, sent[7].log_offset)
    patch(path, at + 44, b"\x55")
    _, findings = check(tmp_path)
    assert damages(findings) == [("record", path, at)]
    assert "CRC property" in findings.kept[0].text


def test_a_destroyed_record_is_found_with_its_extent(made: Made) -> None:
    """Reading goes on with the next record; the message that is gone is named."""
    victim = made.sent[30]
    path, at = segment_path(made.root, victim.log_offset)
    patch(path, at, b"\xee" * victim.size)
    checked, findings = check(made.root)
    assert checked.records == COUNT - 1
    lost, *entries, lacking = findings.kept
    assert (lost.kind, lost.path, lost.offset) == ("record", path, at)
    assert f"{victim.size} bytes up to the next record" in lost.text
    assert lacking.kind == "record"
    assert f"offset {victim.queue_offset} of {victim.topic}" in lacking.text
    assert [it.kind for it in entries] == ["index"] * 3


def test_a_destroyed_last_record_of_a_segment_is_found(made: Made) -> None:
    """The blank behind it shows that the segment ended in order."""
    victim = next(
        left for left, right in zip(made.sent, made.sent[1:], strict=False)
        if right.log_offset == SEGMENT_BYTES
    )  # fmt: skip
    path, at = segment_path(made.root, victim.log_offset)
    patch(path, at, bytes(victim.size))
    checked, findings = check(made.root)
    assert damages(findings)[0] == ("record", path, at)
    assert checked.records == COUNT - 1


def test_a_segment_of_zeros_in_the_middle_is_found(made: Made) -> None:
    """The disk has lost a whole file; what comes after it is still read."""
    path, _ = segment_path(made.root, SEGMENT_BYTES)
    path.write_bytes(bytes(SEGMENT_BYTES))
    checked, findings = check(made.root)
    assert ("record", path, 0) in damages(findings)
    inside = sum(it.log_offset // SEGMENT_BYTES == 1 for it in made.sent)
    assert checked.records == COUNT - inside


def test_a_missing_segment_is_found(made: Made) -> None:
    """A gap in the middle of the log."""
    path, _ = segment_path(made.root, SEGMENT_BYTES)
    path.unlink()
    _, findings = check(made.root)
    first, _ = segment_path(made.root, 0)
    assert damages(findings)[0] == ("file", first, SEGMENT_BYTES)
    assert path.name in findings.kept[0].text


def test_a_segment_of_another_length_is_found(made: Made) -> None:
    """A broken copy; its records are read as far as they go."""
    path, _ = segment_path(made.root, SEGMENT_BYTES)
    path.write_bytes(path.read_bytes()[: SEGMENT_BYTES // 2])
    checked, findings = check(made.root)
    assert damages(findings)[0] == ("file", path, SEGMENT_BYTES // 2)
    assert 0 < checked.records < COUNT


def test_a_file_that_is_no_segment_is_found(made: Made) -> None:
    """A broker would refuse to start with it."""
    stranger = made.root / "commitlog" / "notes.txt"
    stranger.write_text("x")
    empty = made.root / "commitlog" / f"{10**9:020d}"
    empty.touch()
    _, findings = check(made.root)
    assert damages(findings) == [("file", stranger, 0)]
    assert notes(findings) == [("file", empty, 0)]


def test_an_empty_file_between_others_is_found(made: Made) -> None:
    """Only the last one can be what a crash has left of a creation."""
    path, _ = segment_path(made.root, SEGMENT_BYTES)
    path.write_bytes(b"")
    _, findings = check(made.root)
    assert ("file", path, 0) in damages(findings)


def test_bytes_behind_the_end_are_damage_after_a_clean_stop_only(made: Made) -> None:
    """After a crash they are a torn end, which the next start cuts off."""
    last = made.sent[-1]
    path, at = segment_path(made.root, last.log_offset + last.size)
    patch(path, at + 10, b"torn")
    _, findings = check(made.root)
    assert damages(findings) == [("record", path, at)]
    assert "14 bytes behind the last record" in findings.kept[0].text
    made.crash()
    (made.root / "checkpoint").unlink()
    _, findings = check(made.root)
    assert findings.is_clean
    assert ("record", path, at) in notes(findings)


def test_a_log_that_was_safe_and_is_shorter_is_damage_after_a_crash(made: Made) -> None:
    """The checkpoint knows how far it was on the disk."""
    last = made.sent[-1]
    path, at = segment_path(made.root, last.log_offset)
    patch(path, at, bytes(last.size))
    made.crash()
    _, findings = check(made.root)
    assert ("record", path, at) in damages(findings)
    assert "was on the disk up to" in findings.kept[0].text


def test_a_record_whose_flags_can_be_mended_is_found(made: Made) -> None:
    """A flag of Java's that says IPv6 of hosts that are not, and twelve bytes that are nothing.

    All else that leads to it is right.
    """
    victim = made.sent[4]
    path, at = segment_path(made.root, victim.log_offset)
    content = bytearray(path.read_bytes())
    content[at + 36 : at + 40] = BORN_HOST_IPV6.to_bytes(4)
    properties_at = at + 88 + len(victim.body) + 1 + len(victim.topic)
    length = int.from_bytes(content[properties_at : properties_at + 2]) - 12
    content[properties_at : properties_at + 2] = length.to_bytes(2)
    content[at + victim.size - 12 : at + victim.size] = bytes(12)
    path.write_bytes(bytes(content))
    checked, findings = check(made.root)
    assert damages(findings) == [("record", path, at)]
    assert "IPv6" in findings.kept[0].text
    assert checked.records == COUNT


# --- queues ---------------------------------------------------------------------------------------


def test_a_unit_that_leads_elsewhere_is_found(made: Made) -> None:
    """To the place of another message."""
    victim, other = made.of("T", 0)[5], made.of("T", 1)[5]
    path, at = queue_path(made.root, victim)
    patch(path, at, unit(other.log_offset, other.size, tag_code(victim.tag)))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at)]
    assert f"leads to {other.size} bytes at log offset {other.log_offset}" in findings.kept[0].text


def test_a_unit_with_a_wrong_size_is_found(made: Made) -> None:
    """Whoever pulls it gets too much."""
    victim = made.of("Other", 0)[3]
    path, at = queue_path(made.root, victim)
    patch(path, at, unit(victim.log_offset, victim.size + 1, tag_code(victim.tag)))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at)]


def test_a_unit_with_a_wrong_tag_is_found(made: Made) -> None:
    """Consumers of the tag would not get the message."""
    victim = made.of("T", 1)[25]
    path, at = queue_path(made.root, victim)
    patch(path, at, unit(victim.log_offset, victim.size, 7))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at)]
    assert "tags code 7" in findings.kept[0].text


def test_missing_units_are_found_as_one_range(made: Made) -> None:
    """A page of zeros in the middle."""
    victim = made.of("T", 0)[4]
    path, at = queue_path(made.root, victim)
    patch(path, at, bytes(3 * 20))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at)]
    assert "offsets 4 to 6 of T queue 0" in findings.kept[0].text


def test_a_missing_tail_is_damage_only_after_a_clean_stop(made: Made) -> None:
    """After a crash the next start makes it from the log."""
    victim = made.of("T", 0)[-1]
    path, at = queue_path(made.root, victim)
    patch(path, at, bytes(20))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at)]
    made.crash()
    (made.root / "checkpoint").unlink()
    _, findings = check(made.root)
    assert findings.is_clean
    assert ("queue", path, at) in notes(findings)


def test_entries_that_a_broker_adds_meanwhile_hide_no_older_ones(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slots lead to them first, and their number was not known when the file was opened."""
    made.crash()
    (made.root / "checkpoint").unlink()
    before, _ = check(made.root)
    make = OpenIndexFile.__init__

    def make_before(self: OpenIndexFile, mapped: MappedFile, layout: Layout) -> None:
        make(self, mapped, layout)
        self.count -= 6

    monkeypatch.setattr(OpenIndexFile, "__init__", make_before)
    checked, findings = check(made.root)
    assert damages(findings) == []
    assert checked.entries == before.entries - 6


def test_a_missing_queue_is_found(made: Made) -> None:
    """Unless topics.json says that its topic was deleted."""
    folder = made.root / "consumequeue" / "Other"
    shutil.rmtree(folder)
    _, findings = check(made.root)
    assert damages(findings) == [("queue", folder / "0", 0)]
    config = made.root / "config"
    config.mkdir()
    (config / "topics.json").write_text('{"topicConfigTable":{"T":{"topicName":"T"}}}')
    checked, findings = check(made.root)
    assert findings.is_clean
    assert notes(findings) == [("queue", folder / "0", 0)]
    assert checked.tables == 1


def test_units_behind_the_log_are_found(made: Made) -> None:
    """A queue that was on the disk before the log was."""
    victim = made.of("T", 0)[-1]
    path, at = queue_path(made.root, victim)
    patch(path, at + 20, unit(10**9, 100, 0) + unit(10**9 + 100, 100, 0))
    _, findings = check(made.root)
    assert damages(findings) == [("queue", path, at + 20)]
    assert "behind the end" in findings.kept[0].text
    made.crash()
    _, findings = check(made.root)
    assert findings.is_clean


def test_a_unit_without_a_message_is_found(made: Made) -> None:
    """It leads into the log, to a message of another queue."""
    victim, other = made.of("T", 0)[-1], made.of("T", 1)[2]
    path, at = queue_path(made.root, victim)
    patch(path, at + 20, unit(other.log_offset, other.size, 0))
    stranger = made.root / "consumequeue" / "Unknown" / "3" / f"{0:020d}"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(unit(other.log_offset, other.size, 0).ljust(400, b"\0"))
    _, findings = check(made.root)
    assert sorted(damages(findings)) == sorted([("queue", path, at + 20), ("queue", stranger, 0)])


def test_a_queue_file_of_another_length_is_found(made: Made) -> None:
    """Its units count as missing, too."""
    path, _ = queue_path(made.root, made.of("T", 0)[0])
    path.write_bytes(path.read_bytes()[:-20])
    stranger = path.with_name("x")
    stranger.touch()
    _, findings = check(made.root)
    assert [kind for kind, _, _ in damages(findings)] == ["file", "file", "queue"]
    assert ("file", path, 0) in damages(findings)
    assert ("file", stranger, 0) in damages(findings)


def test_an_offset_that_is_there_twice_is_found(made: Made) -> None:
    """The log numbers a message as one before it."""
    victim = made.of("T", 0)[7]
    path, at = segment_path(made.root, victim.log_offset)
    patch(path, at + 20, struct.pack(">q", 3))
    patch_crc(path, at)
    _, findings = check(made.root)
    assert damages(findings)[0] == ("record", path, at)
    assert "a second message with offset 3 of T queue 0" in findings.kept[0].text


def test_a_queue_that_began_anew_is_a_note(made: Made) -> None:
    """Its topic was deleted and made again: the old messages have no place in it."""
    store = Store(made.root, SETTINGS, clock_ms=Clock())
    store.open(1)
    store.delete_topic("Other")
    for number in range(3):
        store.append(stores.message(2_000 + number, "Other"))
    store.close()
    _, findings = check(made.root)
    assert findings.is_clean, findings.kept
    assert "begins anew here" in findings.kept[0].text


def test_a_queue_that_began_anew_again_and_again_is_noted_each_time(made: Made) -> None:
    """What came between two deletions is in no queue, either."""
    store = Store(made.root, SETTINGS, clock_ms=Clock())
    store.open(1)
    for begun in range(3):
        store.delete_topic("Other")
        for number in range(2 + begun):
            store.append(stores.message(2_000 + number, "Other"))
    store.close()
    _, findings = check(made.root)
    assert findings.is_clean, findings.kept
    assert sum("begins anew here" in finding.text for finding in findings.kept) == 3


def test_a_queue_that_was_deleted_for_good_with_its_topic_is_noted(made: Made) -> None:
    """The topic was made again, and another of its queues was written to."""
    store = Store(made.root, SETTINGS, clock_ms=Clock())
    store.open(1)
    for number, queue_id in enumerate((0, 1)):
        store.append(stores.message(2_000 + number, "Anew", queue_id))
    store.delete_topic("Anew")
    store.append(stores.message(2_002, "Anew", 0))
    store.close()
    _, findings = check(made.root)
    assert findings.is_clean, findings.kept
    texts = [finding.text for finding in findings.kept]
    assert any("Anew queue 0 begins anew here" in text for text in texts), texts
    assert any("Anew queue 1 without a queue: the topic was deleted" in text for text in texts)


def test_an_offset_0_that_is_there_twice_is_found(made: Made) -> None:
    """The topic was not deleted: its units lead to the messages of before."""
    victim = made.of("T", 0)[7]
    path, at = segment_path(made.root, victim.log_offset)
    patch(path, at + 20, struct.pack(">q", 0))
    patch_crc(path, at)
    _, findings = check(made.root)
    assert damages(findings)


# --- the index ------------------------------------------------------------------------------------


def entry_at(number: int) -> int:
    return 40 + stores.SLOTS * 4 + number * 20


def test_an_entry_with_another_hash_is_found(made: Made) -> None:
    """It is in no chain, and its message is not found by that key."""
    path = index_path(made.root)
    patch(path, entry_at(10), struct.pack(">i", 12345))
    _, findings = check(made.root)
    assert ("index", path, entry_at(10)) in damages(findings)
    assert {kind for kind, _, _ in damages(findings)} == {"index"}


@pytest.mark.parametrize("log_offset", [5, 10**9])
def test_an_entry_that_leads_elsewhere_is_found(made: Made, log_offset: int) -> None:
    """Into the middle of a record, or behind the log."""
    path = index_path(made.root)
    patch(path, entry_at(10) + 4, struct.pack(">q", log_offset))
    _, findings = check(made.root)
    assert ("index", path, entry_at(10)) in damages(findings)
    assert any("is not found by its key 'U" in it.text or "its key" in it.text
               for it in findings.kept)  # fmt: skip


def test_an_entry_with_another_time_is_found(made: Made) -> None:
    """A query for its time would miss it."""
    path = index_path(made.root)
    patch(path, entry_at(10) + 12, struct.pack(">i", 77_777))
    _, findings = check(made.root)
    assert damages(findings) == [("index", path, entry_at(10))]


def test_a_slot_that_leads_nowhere_is_found(made: Made) -> None:
    """The chain is not in the file, and all its messages are not found."""
    path = index_path(made.root)
    content = path.read_bytes()
    slot = next(n for n in range(stores.SLOTS) if any(content[40 + 4 * n : 44 + 4 * n]))
    patch(path, 40 + 4 * slot, struct.pack(">i", 900))
    _, findings = check(made.root)
    assert damages(findings)[0] == ("index", path, 40 + 4 * slot)
    patch(path, 40 + 4 * slot, bytes(4))
    _, findings = check(made.root)
    assert any("is not found by its key" in it.text for it in findings.kept)


def test_an_index_that_ends_early_is_found_as_one_range(made: Made) -> None:
    """The header counts fewer entries than messages have keys."""
    path = index_path(made.root)
    patch(path, 24, struct.pack(">q", made.sent[-3].log_offset))
    patch(path, 36, struct.pack(">i", 1 + 3 * (COUNT - 2)))
    _, findings = check(made.root)
    missing = [it for it in findings.kept if "not found by any key" in it.text]
    assert len(missing) == 1
    assert missing[0].text.startswith("2 messages")
    made.crash()
    (made.root / "checkpoint").unlink()
    assert check(made.root)[1].is_clean


def test_a_header_that_cannot_be_is_found(made: Made) -> None:
    """More slots in use than there are entries."""
    path = index_path(made.root)
    patch(path, 32, struct.pack(">i", 10**6))
    _, findings = check(made.root)
    assert damages(findings) == [("index", path, 0)]


def test_an_index_file_of_another_length_is_found(made: Made) -> None:
    """The layout is that of the others."""
    path = index_path(made.root)
    broken = path.with_name("20000101000000000")
    broken.write_bytes(b"x" * 1_000)
    _, findings = check(made.root)
    assert damages(findings) == [("index", broken, 0)]


# --- small files ----------------------------------------------------------------------------------


def test_a_table_that_is_no_json_is_found(made: Made) -> None:
    """It names the backup that a broker would read."""
    config = made.root / "config"
    config.mkdir()
    (config / "topics.json").write_text('{"a":')
    (config / "topics.json.bak").write_text("{}")
    (config / "delayOffset.json").write_text('{"offsetTable":{1:2}}')
    (config / "x.json").write_text("")
    (config / "y.json.bak").write_text("{")
    checked, findings = check(made.root)
    names = {it.path.name: it.text for it in findings.kept}
    assert set(names) == {"topics.json", "x.json", "y.json.bak"}
    assert "a broker reads topics.json.bak" in names["topics.json"]
    assert "there is no backup" in names["x.json"]
    assert checked.tables == 2


@pytest.mark.parametrize(("at", "value"), [(0, 1 << 60), (8, -1), (24, -5)])
def test_a_checkpoint_that_cannot_be_is_found(made: Made, at: int, value: int) -> None:
    """Times of the far future and negative numbers."""
    path = made.root / "checkpoint"
    patch(path, at, struct.pack(">q", value))
    _, findings = check(made.root)
    assert damages(findings) == [("checkpoint", path, at)]


def test_a_checkpoint_that_knows_of_later_messages_is_found(made: Made) -> None:
    """The end of the log has been lost."""
    path = made.root / "checkpoint"
    patch(path, 0, struct.pack(">q", made.sent[-1].store_time_ms + 5))
    _, findings = check(made.root)
    assert damages(findings) == [("checkpoint", path, 0)]
    path.write_bytes(path.read_bytes()[:100])
    assert len(damages(check(made.root)[1])) == 2


def test_findings_beyond_the_bound_are_counted(made: Made) -> None:
    """A broken store does not fill the memory."""
    findings = Findings(kept_max=2)
    for number in range(5):
        findings.damage("queue", made.root, number, "x")
    findings.note("queue", made.root, 9, "x")
    assert (len(findings.kept), findings.left_out) == (2, 4)
    assert findings.damages == {"queue": 5}


def test_what_is_not_understood_is_named(made: Made) -> None:
    """Queues of other kinds are left alone."""
    (made.root / "batchconsumequeue" / "B").mkdir(parents=True)
    (made.root / "consumequeue" / "CURRENT").touch()
    checked, findings = check(made.root)
    assert checked.unchecked == ["consumequeue (a RocksDB database)", "batchconsumequeue"]
    assert findings.is_clean
