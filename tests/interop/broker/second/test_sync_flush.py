"""A broker that answers when messages are on the disk, and producers that will not wait for it.

What is promised of the disk is proven by the fault tests; here Java's clients live with it.
"""

import pytest

from interop.broker.clients import Clients, Sent
from interop.broker.cluster import BrokerAddress
from interop.peer.remote import ask

GET_BROKER_CONFIG = 26
COUNT = 8


@pytest.mark.parametrize("wait", [True, False], ids=["waiting", "not waiting"])
def test_every_way_to_send_reaches_a_consumer(
    clients: Clients, second: BrokerAddress, wait: bool
) -> None:
    """With waitStoreMsgOK and without: each message is stored once, where its sender was told."""
    assert b"flushDiskType=SYNC_FLUSH" in ask(second.address, GET_BROKER_CONFIG).body.split()
    topic = f"Synced-{wait}"
    clients.make_topic(topic, 1, [second.address])
    sent: list[Sent] = []
    bodies = []
    for how in ("sync", "batch", "oneway", "async"):
        these = [f"{how} {n}" for n in range(COUNT)]
        sent += clients.send(topic, [{"body": body, "wait": wait} for body in these], how)
        bodies += these
    with clients.push(topic, topic) as consumer:
        received = sorted(consumer.received(4 * COUNT), key=lambda one: one.offset)
        assert len(consumer.stop()) == 4 * COUNT
    assert sorted(one.body for one in received) == sorted(bodies)
    assert [one.offset for one in received] == list(range(4 * COUNT))
    told = str(wait).lower()
    # The broker of 4.9 does not store this property.
    assert {one.properties.get("WAIT", told) for one in received} == {told}
    assert {one.status for one in sent} == {"SEND_OK"}
    stored = [
        (one.id, second.offset_id(one.log_offset))
        for one in received
        if not one.body.startswith("oneway")
    ]
    assert sorted(places_of(sent)) == sorted(stored)


def places_of(sent: list[Sent]) -> list[tuple[str, str]]:
    """Unique key and offset id of each message; the answer to a batch has those of all of it."""
    return [
        pair
        for one in sent
        for pair in zip(one.id.split(","), one.offset_id.split(","), strict=True)
    ]
