"""How groups fetch messages is said by operators and kept."""

from pathlib import Path

import pytest

from roketto.broker.handlers.request_modes import ROUTES
from roketto.protocol.bodies.assignment import (
    MessageRequestMode,
    MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody,
)
from roketto.protocol.codes import ResponseCode
from unit.broker.clients_rig import ClientsRig, route

SET, GET = route(ROUTES, 401), route(ROUTES, 402)


def asked(topic: str = "T", group: str = "G") -> dict[str, object]:
    return {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 2}


def test_a_mode_is_set_and_shown(tmp_path: Path) -> None:
    """The group is made by it, as in Java."""
    rig = ClientsRig(tmp_path)
    assert rig.ask(SET, body=asked()).code == 0
    mode = SetMessageRequestModeRequestBody("G", MessageRequestMode.POP, 2, "T")
    shown = rig.read(MessageRequestModeSerializeWrapper, GET, {})
    assert shown.message_request_mode_map == {"T": {"G": mode}}
    assert rig.context.modes.is_changed
    assert rig.context.groups.get("G") is not None
    rig.close()


@pytest.mark.parametrize(
    ("topic", "group", "code", "reason"),
    [
        ("%RETRY%G", "G", ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"),
        ("U", "G", ResponseCode.TOPIC_NOT_EXIST, "topic[U] not exist"),
        ("T", "no name", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not"),
    ],
)
def test_a_mode_of_what_is_not_there_is_refused(
    tmp_path: Path, topic: str, group: str, code: ResponseCode, reason: str
) -> None:
    rig = ClientsRig(tmp_path)
    refused = rig.refuse(SET, body=asked(topic, group))
    assert refused[0] == code
    assert reason in refused[1]
    assert len(rig.context.modes) == 0
    rig.close()
