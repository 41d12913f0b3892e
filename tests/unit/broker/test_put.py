"""Every message goes into the store one way: delayed ones wait, and what is put is counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.put import put, put_as_is, put_batch
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.send_rig import SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    yield rig
    rig.close()


def record(**properties: str) -> Record:
    return Record("T", b"body", encode_properties(properties), 1)


def test_a_delayed_message_is_put_off_and_another_is_not(rig: SendRig) -> None:
    """The record says where it went."""
    put(rig.context, record(TAGS="a"))
    late = record(DELAY="1")
    put(rig.context, late)
    assert (late.topic, late.queue_id) == (SCHEDULE_TOPIC, 0)
    assert len(rig.records("T", 1)) == len(rig.records(SCHEDULE_TOPIC, 0)) == 1
    assert rig.context.stats.put.count == 2


def test_a_copy_that_is_due_is_not_put_off_again(rig: SendRig) -> None:
    """It still has the property that made it wait."""
    put_as_is(rig.store, rig.context.stats, record(DELAY="1"))
    assert len(rig.records("T", 1)) == 1
    assert rig.context.stats.put.count == 1


def test_what_is_refused_does_not_count(rig: SendRig) -> None:
    """Nor is anything of it written."""
    for bad in (Record("T", b""), Record("T", b"x", sys_flag=0x80), record(INNER_NUM="2")):
        with pytest.raises(PutRefusedError) as caught:
            put(rig.context, bad)
        assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
    put(rig.context, record(SPINNER_NUM="2"))
    assert rig.context.stats.put.count == 1


def test_what_the_store_refuses_is_a_failed_put(rig: SendRig) -> None:
    """One message or a batch of them."""
    rig.store.gate.hold("the disk is full")
    with pytest.raises(PutRefusedError):
        put(rig.context, record())
    with pytest.raises(PutRefusedError):
        put(rig.context, record(), is_given_back=True)
    with pytest.raises(PutRefusedError):
        put_batch(rig.context, Record("T", encode_batch([BatchItem(b"a")])))
    assert (rig.context.stats.put.count, rig.context.stats.put_failed) == (0, 3)


def test_a_message_given_back_is_no_send(rig: SendRig) -> None:
    """It is counted where it waits, and as a dead letter for the store alone."""
    put(rig.context, record(DELAY="3"), is_given_back=True)
    put(rig.context, record(DELAY="0"), is_given_back=True)
    stats = rig.context.stats
    assert sorted(stats.topics) == [SCHEDULE_TOPIC]
    assert (stats.put.count, stats.put_aside.count, stats.user_put_count) == (2, 1, 0)
    assert len(rig.records("T", 1)) == 1


def test_a_batch_counts_as_many_messages_as_it_has(rig: SendRig) -> None:
    """And once as a put."""
    body = encode_batch([BatchItem(b"a"), BatchItem(b"b")])
    where = put_batch(rig.context, Record("T", body))
    put_batch(rig.context, Record("T", body, encode_properties({"DELAY": "0"})))
    assert (where.queue_offset, len(where.sizes)) == (0, 2)
    assert (rig.context.stats.put.count, rig.context.stats.put.times) == (4, 2)
