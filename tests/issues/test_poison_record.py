"""Seen on 5.5.0: one send with a lying system flag made the next start drop all later messages.

The bits that say "this host is IPv6" are the sender's there, and the record is stored with a
layout that they do not describe. Recovery ends at it, after a kill and after a clean stop alike.
"""

import struct
from pathlib import Path

import pytest

from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, ask, connected, read_queue, send_request
from fault.small_store import SmallStore, segment_path
from roketto.protocol.hosts import encode_host
from roketto.protocol.record import Record
from roketto.store.store import StoreSettings

IPV4 = encode_host("10.0.0.1", 10911)


@pytest.mark.parametrize("bits", [0x10, 0x20, 0x30])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_senders_flag_does_not_describe_our_record(bits: int, is_clean: bool) -> None:
    """The store sets the bits from the hosts it writes, and opens again with all that follows."""
    rig = SmallStore().open()
    rig.append()
    poison = Record("T", b"poison", sys_flag=bits, born_host=IPV4, store_host=IPV4)
    put = rig.store.append(poison)
    assert rig.store.record_at(put.log_offset).sys_flag & 0x30 == 0
    rig.append()
    if is_clean:
        rig.close()
    image = rig.image()
    after = rig.reopen(image)
    assert after.recovered is not None
    assert (after.recovered.repaired, after.recovered.cut_bytes) == (0, 0)
    assert [offset for offset, _, _ in after._read("T", 0)] == [0, 1, 2]
    after.close()
    rig.close()


@pytest.mark.parametrize("bits", [0x10, 0x20, 0x30])
def test_a_poisoned_store_of_java_opens_with_all_its_messages(bits: int) -> None:
    """The record is mended where it lies; Java and its clients can read it then, too."""
    settings = StoreSettings(
        segment_bytes=4_096, queue_file_bytes=400, index_slots=20, index_entries=40,
        append_crc=False,
    )  # fmt: skip
    rig = SmallStore(settings=settings).open()
    spare = bits.bit_count() * 12
    for number in range(5):
        # What Java leaves at the end of the record is its own in the properties here, at first.
        properties = b"TAGS\x01t\x02" + (b"\x02" * spare if number == 2 else b"")
        record = Record("T", b"message %d" % number, properties, born_host=IPV4, store_host=IPV4)
        put = rig.store.append(record)
        if number == 2:
            at = put.log_offset
    image = rig.image()
    rig.close()
    path = segment_path(at)
    (sys_flag,) = struct.unpack(">i", image.read_at(path, at + 36, 4))
    image.damage(path, at + 36, struct.pack(">i", sys_flag | bits))
    length_at = at + 88 + len(b"message 2") + 2
    (length,) = struct.unpack(">h", image.read_at(path, length_at, 2))
    image.damage(path, length_at, struct.pack(">h", length - spare))
    image.damage(path, length_at + 2 + length - spare, bytes(spare))
    after = rig.reopen(image)
    assert after.recovered is not None
    assert (after.recovered.records, after.recovered.repaired) == (5, 1)
    assert [offset for offset, _, _ in after._read("T", 0)] == [0, 1, 2, 3, 4]
    assert after.store.record_at(at).properties == {"TAGS": "t"}
    after.close()


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
async def test_a_lying_send_costs_a_broker_nothing(tmp_path: Path, is_killed: bool) -> None:
    """Over the wire, as a stranger would do it: the next start has every message of every topic."""
    queues = (Queue("T", 0), Queue("Other", 0))
    with Site(tmp_path, SMALL) as site:
        async with connected(site.start().address) as connection:
            for number, bits in enumerate((0, 0x10, 0, 0x20, 0, 0x30, 0)):
                for queue in queues:
                    request = send_request(queue, b"%d" % number, {}, sys_flag=bits)
                    assert (await ask(connection, request)).code == 0
        if is_killed:
            site.kill()
        else:
            site.stop()
        async with connected(site.start().address) as connection:
            for queue in queues:
                records = await read_queue(connection, queue)
                assert [bytes(record.body) for record in records] == [b"%d" % n for n in range(7)]
                assert not any(record.sys_flag & 0x30 for record in records)
        assert site.log.count("cut_bytes=0") == 2
        site.stop()
