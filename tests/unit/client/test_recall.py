"""A delayed message is taken back at the broker that its handle names, or it is said why not."""

from base64 import urlsafe_b64encode

import pytest

from roketto.client.errors import BrokerNotFoundError, IllegalMessageError, RefusedError
from roketto.client.recall import parse_handle, recall
from roketto.protocol.codes import RequestCode, ResponseCode
from unit.client.core_rig import MASTER, TOPIC, Rig


def handle(*fields: str) -> str:
    return urlsafe_b64encode(" ".join(fields).encode()).decode()


HANDLE = handle("v1", TOPIC, "broker-a", "1700000000000", "ID")


def test_a_handle_says_who_has_the_message() -> None:
    """With its padding or without."""
    for text in (HANDLE, HANDLE.rstrip("=")):
        assert parse_handle(text) == (TOPIC, "broker-a", "1700000000000", "ID")


@pytest.mark.parametrize(
    "text", ["", "*", handle("v2", TOPIC, "broker-a", "1", "ID"), handle("v1", TOPIC), "A" * 4_097]
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(IllegalMessageError, match="use the recall_handle"):
        parse_handle(text)


async def test_the_broker_of_the_handle_is_asked() -> None:
    rig = Rig(lambda address, command: command.answer(ext={"msgId": "ID"}), "ns")
    rig.routes["ns%Orders"] = rig.routes[TOPIC]
    assert await recall(rig.client, "ns%orders", TOPIC, HANDLE, 1_000) == "ID"
    assert rig.sent(RequestCode.RECALL_MESSAGE) == [
        (MASTER, {"producerGroup": "ns%orders", "topic": "ns%Orders", "recallHandle": HANDLE,
                  "bname": "broker-a"}),
    ]  # fmt: skip


async def test_what_cannot_be_recalled_is_said() -> None:
    rig = Rig(lambda address, command: command.answer(ResponseCode.ILLEGAL_OPERATION, remark="off"))
    with pytest.raises(RefusedError, match="off"):
        await recall(rig.client, "g", TOPIC, HANDLE, 1_000)
    with pytest.raises(IllegalMessageError, match="cannot be recalled"):
        await recall(rig.client, "g", "%RETRY%g", HANDLE, 1_000)
    with pytest.raises(BrokerNotFoundError, match="broker-x"):
        await recall(rig.client, "g", TOPIC, handle("v1", TOPIC, "broker-x", "1", "ID"), 1_000)
