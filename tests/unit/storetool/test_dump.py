"""A dump finds the messages that are asked for, whatever leads there, and shows what they say."""

import os
import signal
import subprocess
import sys
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest

from roketto.protocol.record import Record
from roketto.protocol.tags import parse_tags
from roketto.store.store import Store
from roketto.storetool.directory import State
from roketto.storetool.dump import Dump, Wanted
from roketto.storetool.findings import Findings
from roketto.storetool.messages import parse_time, to_json, to_row
from unit.storetool import stores
from unit.storetool.stores import (
    COUNT,
    SETTINGS,
    Clock,
    Sent,
    look,
    make_store,
    patch,
    queue_path,
    segment_path,
)

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Sent]]:
    root = tmp_path_factory.mktemp("dump") / "store"
    return root, make_store(root)


def find(root: Path, wanted: Wanted) -> tuple[list[Record], Findings]:
    findings = Findings()
    store = look(root)
    try:
        return list(Dump(store, wanted, findings)), findings
    finally:
        store.close()


def places(root: Path, **wanted: object) -> list[int]:
    records, findings = find(root, Wanted(**wanted))  # type: ignore[arg-type]
    assert not findings.kept
    return [record.log_offset for record in records]


def test_everything_comes_in_the_order_of_the_log(made: tuple[Path, list[Sent]]) -> None:
    """Without a condition the log itself is read, with a topic its queues are merged."""
    root, sent = made
    assert places(root) == [it.log_offset for it in sent]
    assert places(root, topic="T") == [it.log_offset for it in sent if it.topic == "T"]
    assert places(root, topic="Nothing") == []


@pytest.mark.parametrize("source", ["queue", "log"])
def test_every_condition_is_kept(made: tuple[Path, list[Sent]], source: str) -> None:
    """Each alone and with a topic, so that queues and log are both asked."""
    root, sent = made
    topic = "T" if source == "queue" else None
    some = [it for it in sent if topic is None or it.topic == topic]
    middle = sent[COUNT // 2].store_time_ms

    def of(keep: list[bool]) -> list[int]:
        return [it.log_offset for it, is_kept in zip(some, keep, strict=True) if is_kept]

    assert places(root, topic=topic, queue_id=1) == of([it.queue_id == 1 for it in some])
    assert places(root, topic=topic, from_offset=5, to_offset=7) == of(
        [5 <= it.queue_offset <= 7 for it in some]
    )
    assert places(root, topic=topic, begin_ms=middle) == of(
        [it.store_time_ms >= middle for it in some]
    )
    assert places(root, topic=topic, end_ms=middle) == of(
        [it.store_time_ms <= middle for it in some]
    )
    assert places(root, topic=topic, begin_ms=middle, end_ms=middle) == of(
        [it.store_time_ms == middle for it in some]
    )
    assert places(root, topic=topic, tags=parse_tags("tag1")) == of(
        [it.tag == "tag1" for it in some]
    )
    assert places(root, topic=topic, key="key31") == of([it.key == "key31" for it in some])
    assert len(places(root, topic=topic, key="all")) == len(some)


def test_one_message_is_found_by_place_and_by_both_ids(made: tuple[Path, list[Sent]]) -> None:
    """The broker's id and the producer's look alike."""
    root, sent = made
    for number in (0, 40, COUNT - 1):
        one = sent[number]
        assert places(root, log_offset=one.log_offset) == [one.log_offset]
        assert places(root, message_id=one.offset_id) == [one.log_offset]
        assert places(root, message_id=f"{number:032X}") == [one.log_offset]
        assert places(root, message_id=f"{number:032X}", topic="Nothing") == []
    assert places(root, message_id="nothing") == []


def test_keys_are_found_without_an_index(tmp_path: Path) -> None:
    """The log is read instead."""
    sent = make_store(tmp_path)
    stores.index_path(tmp_path).unlink()
    assert places(tmp_path, topic="T", key="key3") == [sent[3].log_offset]


def test_a_unit_that_leads_to_no_record_is_told_and_passed(tmp_path: Path) -> None:
    """The others come all the same."""
    sent = make_store(tmp_path)
    victim = sent[30]
    path, at = queue_path(tmp_path, victim)
    patch(path, at, stores.unit(victim.log_offset + 1, victim.size, 0))
    records, findings = find(tmp_path, Wanted(topic=victim.topic, queue_id=victim.queue_id))
    assert len(records) == COUNT // 3 - 1
    assert [(it.path, it.offset) for it in findings.kept] == [(path, at)]


def test_damage_in_the_log_is_told_and_passed(tmp_path: Path) -> None:
    """Reading the log goes on behind it."""
    sent = make_store(tmp_path)
    path, at = segment_path(tmp_path, sent[10].log_offset)
    patch(path, at, b"\xff" * 40)
    records, findings = find(tmp_path, Wanted())
    assert len(records) == COUNT - 1
    assert [(it.path, it.offset) for it in findings.kept] == [(path, at)]


def test_what_queues_and_index_lack_after_a_crash_comes_from_the_log(tmp_path: Path) -> None:
    """A process of ours was killed with the newest units in its memory."""
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from unit.storetool import stores\n"
        "from roketto.store.store import Store\n"
        "store = Store(Path(sys.argv[1]), stores.SETTINGS, clock_ms=stores.Clock())\n"
        "store.open(1); stores.fill(store, 30); store.tick()\n"
        "stores.fill(store, 30, 30)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    store = look(tmp_path)
    assert store.state is State.CRASHED
    first, end = store.queues.of_topic("T")[0].ends()
    store.close()
    assert (first, end) < (0, 20), "the files have all units, so this proves nothing"
    records, findings = find(tmp_path, Wanted(topic="T"))
    assert not findings.kept
    assert [(it.queue_id, it.queue_offset) for it in records if it.queue_id == 0] == [
        (0, n) for n in range(20)
    ]
    assert len(records) == 40
    assert len(places(tmp_path, topic="T", key="key57")) == 1


def test_bodies_are_unpacked_and_shown_as_text_if_they_are(tmp_path: Path) -> None:
    """Text, packed text, and what is no text."""
    store = Store(tmp_path, SETTINGS, clock_ms=Clock())
    store.open(1)
    stores.add_odd_messages(store)
    store.close()
    records, _ = find(tmp_path, Wanted())
    shown = [to_json(record) for record in records]
    assert [it.get("body") for it in shown[:3]] == ["item 0", "item 1", "item 2"]
    assert shown[3]["transaction"] == "prepared"
    assert (shown[4]["body"], shown[4]["compression"]) == ("packed " * 50, "zstd")
    assert (shown[5]["body_base64"], shown[5]["body_bytes"]) == ("AP8B", 3)
    assert shown[0]["store_host"] == "10.0.0.1:10911"
    rows = [to_row(record, UTC, 20) for record in records]
    assert rows[4][-1] == "packed packed pac..."
    assert rows[5][-1] == "00ff01"
    assert rows[0][4].startswith("2023-11-14T22:13:2")


def test_a_body_that_cannot_be_unpacked_is_shown_as_it_is(tmp_path: Path) -> None:
    """With the reason."""
    store = Store(tmp_path, SETTINGS, clock_ms=Clock())
    store.open(1)
    bad = stores.message(1, "Odd")
    bad.sys_flag |= 1
    store.append(bad)
    store.close()
    [record], _ = find(tmp_path, Wanted())
    shown = to_json(record)
    assert "zlib body" in str(shown["trouble"])
    assert str(shown["body"]).startswith("message 1")
    assert to_row(record, UTC, 60)[-1].startswith("(zlib body")


def test_long_texts_are_cut_between_characters() -> None:
    """Also where a character takes four bytes."""
    record = Record("T", "ü€😀".encode() * 50, b"")
    assert to_row(record, UTC, 10)[-1] == "ü€😀ü€😀ü..."
    record.body = b"\xff" * 50
    assert to_row(record, UTC, 10)[-1] == "fffffff..."
    record.store_time_ms = 1 << 62
    assert to_row(record, UTC, 10)[4] == str(1 << 62)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.5+00:00", 1_700_000_000_500),
        ("2023-11-15T00:13:20", 1_700_000_000_000),
        ("2023-11-15", 1_699_999_200_000),
    ],
)
def test_times_are_milliseconds_or_iso(text: str, time_ms: int) -> None:
    """Without a zone it is that of the machine."""
    assert parse_time(text, timezone(timedelta(hours=2))) == time_ms
