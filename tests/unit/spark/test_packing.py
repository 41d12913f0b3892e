"""Requests of a good size: nothing lost, nothing twice, in order, and none too large."""

from itertools import pairwise

import pyarrow as pa
import pytest

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.packing import Packer
from roketto.spark.rows import Part

QUEUE = MessageQueue("a", 0, "Orders")


def part(*sizes: int, topic: str = "Orders", queue: MessageQueue | None = None) -> Part:
    items = pa.array([bytes([65 + number % 26]) * size for number, size in enumerate(sizes)])
    return Part(topic, queue, items.cast(pa.binary()))


@pytest.mark.parametrize("sizes", [[10] * 7, [40, 70, 30], [100, 100], [250, 1, 1], [33] * 40])
def test_parcels_are_full_and_together_all_there_was(sizes: list[int]) -> None:
    packer = Packer(batch_bytes=100)
    given = [part(*sizes), part(*reversed(sizes))]
    parcels = [parcel for one in given for parcel in packer.add(one)] + list(packer.flush())
    everything = b"".join(b"".join(one.items.to_pylist()) for one in given)
    assert b"".join(parcel.body for parcel in parcels) == everything
    assert sum(parcel.count for parcel in parcels) == 2 * len(sizes)
    assert all(len(parcel.body) <= 100 or parcel.count == 1 for parcel in parcels)
    for one, following in pairwise(parcels):
        assert len(one.body) + len(following.body) > 66, "small ones wait for others"


def test_topics_and_queues_are_not_mixed_and_slices_are_what_they_show() -> None:
    packer = Packer(batch_bytes=100)
    sliced = Part("Orders", QUEUE, part(5, 6, 7, 8).items.slice(1, 2))
    assert not [*packer.add(sliced), *packer.add(part(3)), *packer.add(part(4, topic="Bills"))]
    found = {(one.topic, one.queue): one for one in packer.flush()}
    assert found["Orders", QUEUE].body == b"B" * 6 + b"C" * 7
    assert found["Orders", QUEUE].count == 2
    assert (found["Orders", None].body, found["Bills", None].body) == (b"AAA", b"AAAA")
    assert not list(packer.flush())


def test_what_waits_is_bounded_however_many_topics_there_are() -> None:
    packer = Packer(batch_bytes=100, held_bytes_max=200)
    counts = [len(list(packer.add(part(60, topic=f"Topic{number}")))) for number in range(8)]
    assert counts == [0, 0, 0, 4, 0, 0, 0, 4]
