"""Locking over the wire: the answer names what is held, and no nonsense is remembered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import locks as handlers
from roketto.protocol.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import ResponseCode
from unit.broker.clients_rig import ClientsRig, route

LOCK = route(handlers.ROUTES, 41)
UNLOCK = route(handlers.ROUTES, 42)
QUEUES = [MessageQueue("a", number, "T") for number in range(3)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def lock(rig: ClientsRig, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
    said = LockBatchRequestBody(client_id, "G", queues)
    return rig.read(LockBatchResponseBody, LOCK, {}, body=said).lock_ok_mq_set


def test_the_answer_names_what_the_client_holds(rig: ClientsRig) -> None:
    """The second client gets the rest, and after an unlock the others, too."""
    assert lock(rig, "c1", QUEUES[:2]) == QUEUES[:2]
    assert lock(rig, "c2", QUEUES) == QUEUES[2:]
    said = UnlockBatchRequestBody("c1", "G", QUEUES[:2])
    assert rig.ask(UNLOCK, {}, said).code == 0
    assert lock(rig, "c2", QUEUES) == QUEUES


def test_an_ended_lock_goes_to_the_next_client(rig: ClientsRig) -> None:
    """After a minute without a renewal."""
    lock(rig, "c1", QUEUES)
    rig.now_s += 61
    assert lock(rig, "c2", QUEUES) == QUEUES


@pytest.mark.parametrize(
    ("client_id", "group", "queue"),
    [
        ("c1", "no such name", QUEUES[0]),
        ("c1", "G", MessageQueue("a", 0, "../T")),
        ("c1", "G", MessageQueue("a", 0, "T" * 300)),
        ("c1", "G", MessageQueue("a" * 300, 0, "T")),
        ("c" * 300, "G", QUEUES[0]),
    ],
)
def test_names_that_cannot_be_are_refused(
    rig: ClientsRig, client_id: str, group: str, queue: MessageQueue
) -> None:
    """Nothing is remembered of such a request."""
    code, _ = rig.refuse(LOCK, {}, LockBatchRequestBody(client_id, group, [queue]))
    assert code == ResponseCode.INVALID_PARAMETER
    assert len(rig.context.locks) == 0


def test_a_body_that_java_writes_is_understood(rig: ClientsRig) -> None:
    """With a member that older clients do not send."""
    body = (
        b'{"clientId":"c","consumerGroup":"CG","mqSet":[{"brokerName":"a","queueId":0,'
        b'"topic":"T"}],"onlyThisBroker":false}'
    )
    answer = rig.ask(LOCK, {}, body)
    assert bytes(answer.body) == b'{"lockOKMQSet":[{"brokerName":"a","queueId":0,"topic":"T"}]}'
