"""Queue assignment by the broker: who gets which queue, by pull or by POP."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.route import MessageQueue

__all__ = [
    "MessageQueueAssignment",
    "MessageRequestMode",
    "MessageRequestModeSerializeWrapper",
    "QueryAssignmentRequestBody",
    "QueryAssignmentResponseBody",
    "SetMessageRequestModeRequestBody",
]


class MessageRequestMode(Enum):
    """How a client has to fetch the messages of a queue."""

    PULL = "PULL"
    POP = "POP"


class SetMessageRequestModeRequestBody(Body):
    """How a group fetches the messages of a topic."""

    consumer_group: str = ""
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int = 0
    topic: str = ""


class MessageRequestModeSerializeWrapper(Body):
    """All request modes of a broker: topic -> group -> mode; slaves copy it."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(
        default_factory=dict
    )


class QueryAssignmentRequestBody(Body):
    """A client asks which queues are its own."""

    client_id: str = ""
    consumer_group: str = ""
    message_model: MessageModel | None = None
    strategy_name: str | None = None
    topic: str = ""


class MessageQueueAssignment(Body):
    """One queue and how to fetch from it."""

    attachments: dict[str, str] | None = None
    message_queue: MessageQueue | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL


class QueryAssignmentResponseBody(Body):
    """None means "keep what you have", an empty list "drop all"."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None
