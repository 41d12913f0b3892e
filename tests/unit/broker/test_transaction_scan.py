"""What the log says of transactions is read as Java wrote it, and damage costs one message only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import transaction_scan
from roketto.broker.half_messages import make_half, renew
from roketto.broker.transaction_scan import find_committed, scan
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC, TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.send_rig import SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    yield rig
    rig.close()


def half(key: str = "U", queue_id: int = 1) -> Record:
    record = Record("T", b"x", encode_properties({"UNIQ_KEY": key}), queue_id=queue_id)
    make_half(record)
    return record


def store_half(rig: SendRig, key: str = "U", queue_id: int = 1) -> Record:
    rig.store.append(half(key, queue_id))
    return rig.records(HALF_TOPIC, 0)[-1]


def store_op(rig: SendRig, text: bytes) -> None:
    rig.store.append(Record(HALF_OP_TOPIC, text))


def test_a_store_without_transactions_has_none_open(rig: SendRig) -> None:
    found = scan(rig.store, None, 7)
    assert (found.halves, found.ops, found.half_end, found.op_end) == ({}, [], 0, 0)


@pytest.mark.parametrize(
    ("text", "still_open"),
    [
        (b"1", {0, 2, 3}),
        (b"1,", {0, 2, 3}),
        (b"1,3,", {0, 2}),
        (b"0,x,1,,3,99999999999999999999,", {2}),
    ],
)
def test_ops_of_every_version_are_read(rig: SendRig, text: bytes, still_open: set[int]) -> None:
    """One offset, or several, with or without a comma at the end; nonsense is nothing."""
    for _ in range(4):
        store_half(rig)
    store_op(rig, text)
    found = scan(rig.store, None, None)
    assert set(found.halves) == {0, 1, 2, 3} - {
        int(n) for n in text.split(b",") if len(n) == 1 and n.isdigit()
    }
    assert found.ops[0][0] == 0
    assert (found.half_end, found.op_end) == (4, 1)


def test_an_op_that_says_nothing_is_left_out(rig: SendRig) -> None:
    store_half(rig)
    store_op(rig, b"?")
    found = scan(rig.store, None, None)
    assert set(found.halves) == {0}
    assert found.ops == []


def test_a_transaction_is_open_at_its_last_link(rig: SendRig) -> None:
    """In the order of these; one decided link ends it, whichever that is."""
    for _ in range(3):
        store_half(rig)
    for number in (0, 1, 2):
        rig.store.append(renew(rig.records(HALF_TOPIC, 0)[number]))
    store_op(rig, b"4,")
    store_op(rig, b"2,")
    found = scan(rig.store, None, None)
    assert {first: link.queue_offset for first, link in found.halves.items()} == {0: 3}


def test_what_cannot_be_read_costs_nothing_else(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store_half(rig)
    second = store_half(rig)
    store_op(rig, b"1")
    read = rig.store.record_at

    def fail(log_offset: int) -> Record:
        if log_offset >= second.log_offset:
            raise StoreError("damaged")
        return read(log_offset)

    monkeypatch.setattr(rig.store, "record_at", fail)
    assert set(scan(rig.store, None, None).halves) == {0}
    assert caplog.text.count("cannot be read: damaged") == 2


def no_delay(record: Record) -> None:
    """No message is a delayed one."""


def commit(rig: SendRig, link: Record, key: str = "U", sys_flag: int = 8) -> None:
    properties = encode_properties({"UNIQ_KEY": key})
    rig.store.append(
        Record("T", b"x", properties, queue_id=1, sys_flag=sys_flag,
               prepared_log_offset=link.log_offset)
    )  # fmt: skip


def test_a_message_in_its_queue_was_committed(rig: SendRig) -> None:
    """If its half message, its id and its flag say so; other messages are not looked at twice."""
    links = {number: store_half(rig, f"U{number}") for number in range(5)}
    commit(rig, links[1], "U1")
    commit(rig, links[2], "other")
    commit(rig, links[3], "U3", sys_flag=0)
    links[4].remove_property("REAL_TOPIC")
    assert find_committed(rig.store, links, no_delay) == [1]


def test_a_queue_that_nobody_has_used_has_no_commits(rig: SendRig) -> None:
    assert find_committed(rig.store, {0: store_half(rig, queue_id=3)}, no_delay) == []


def test_a_message_that_would_be_refused_was_not_committed(rig: SendRig) -> None:
    link = store_half(rig)
    commit(rig, link)

    def refuse(record: Record) -> None:
        raise PutRefusedError(PutStatus.MESSAGE_ILLEGAL, "an odd time")

    assert find_committed(rig.store, {0: link}, refuse) == []


def test_a_message_with_a_time_was_committed_wherever_it_is(rig: SendRig) -> None:
    """It waits, or its time was over when it was committed; whatever would be said of it today."""
    links = {number: store_half(rig, f"U{number}") for number in range(3)}
    for link in links.values():
        link.set_property("TIMER_DELAY_SEC", "5")
    commit(rig, links[0], "U0")
    waiting = Record(
        TIMER_TOPIC, b"x", encode_properties({"UNIQ_KEY": "U1"}), sys_flag=8,
        prepared_log_offset=links[1].log_offset,
    )  # fmt: skip
    rig.store.append(waiting)

    def refuse(record: Record) -> None:
        raise PutRefusedError(PutStatus.WHEEL_TIMER_FLOW_CONTROL, "a crowd")

    for delay in (no_delay, refuse):
        assert sorted(find_committed(rig.store, links, delay)) == [0, 1]


def test_the_look_back_is_bounded(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_scan, "LOOK_BACK_MAX", 2)
    links = {number: store_half(rig, f"U{number}") for number in range(3)}
    for number, link in links.items():
        commit(rig, link, f"U{number}")
    assert find_committed(rig.store, links, no_delay) == [1, 2]
