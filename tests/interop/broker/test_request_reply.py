"""Java's request and reply: a producer asks, a consumer answers, the broker carries both."""

import pytest

from interop.broker.clients import Clients
from interop.broker.cluster import CLUSTER_NAME
from interop.peer import ClientError


@pytest.mark.parametrize("how", ["sync", "async"])
def test_request_is_answered(clients: Clients, how: str) -> None:
    """The reply comes to the one that asked, with its own properties."""
    topic = f"Asked-{how}"
    with clients.push(topic, topic, replies=True) as consumer:
        for n in range(3):
            reply = clients.request(topic, f"question {n} 问题", how)
            assert reply.body == f"reply to question {n} 问题"
            assert reply.topic == f"{CLUSTER_NAME}_REPLY_TOPIC"
            question = consumer.received(n + 1)[-1]
            for key in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"):
                assert reply.properties[key] == question.properties[key]
            assert reply.properties["MSG_TYPE"] == "reply"
            assert question.properties["CLUSTER"] == CLUSTER_NAME


def test_request_that_nobody_answers_times_out(clients: Clients) -> None:
    """The request is stored, and its sender is told that no reply came."""
    with pytest.raises(ClientError) as raised:
        clients.request("NotAsked", "anybody?", wait_s=1.0)
    assert (raised.value.kind, raised.value.code) == ("RequestTimeoutException", 10006)
    assert [one.body for one in clients.drain("NotAsked", 1)] == ["anybody?"]
