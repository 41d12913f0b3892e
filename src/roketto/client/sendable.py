"""Which topics clients may send to."""

from roketto.client.errors import IllegalMessageError
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import NOT_SENDABLE_TOPICS, check_topic

__all__ = ["check_sendable"]


def check_sendable(topic: str) -> None:
    """IllegalMessageError unless clients may send to a topic of that name."""
    try:
        check_topic(topic)
    except IllegalNameError as error:
        raise IllegalMessageError(error.reason) from error
    if topic in NOT_SENDABLE_TOPICS:
        raise IllegalMessageError(f"topic {topic} is the system's; clients do not send to it")
