"""Queue locks of orderly consumers: ask for, get and give back."""

from msgspec import field

from roketto.protocol.bodies.base import Body
from roketto.protocol.bodies.route import MessageQueue

__all__ = ["LockBatchRequestBody", "LockBatchResponseBody", "UnlockBatchRequestBody"]


class LockBatchRequestBody(Body):
    """The queues that a client wants to hold alone."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


class LockBatchResponseBody(Body):
    """The queues that it holds now."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, name="lockOKMQSet")


class UnlockBatchRequestBody(Body):
    """The queues that a client gives back."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False
