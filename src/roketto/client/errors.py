"""What can go wrong for whoever sends or consumes; each text names the thing, why, and the remedy.

A request that was refused or found nobody may have been carried out or not. ``UnreachableError``
says which (``is_sent``); everything else that is raised before an answer came was never sent.
"""

from roketto.protocol.codes import ResponseCode

__all__ = [
    "BrokerNotFoundError", "ClientClosedError", "ClientError", "IllegalMessageError",
    "NoNameServerError", "NotStartedError", "RefusedError", "ReplyTimeoutError", "SendFailedError",
    "TopicNotFoundError", "UnreachableError", "UnreadableError",
]  # fmt: skip


class ClientError(Exception):
    """The root of all errors of a client."""


class NotStartedError(ClientError):
    """Something was asked of a client that is not started; use it as a context manager."""


class ClientClosedError(ClientError):
    """Something was asked of a client that was stopped, or was stopped meanwhile."""


class NoNameServerError(ClientError):
    """No name server is configured, or none of those that are could be reached."""


class TopicNotFoundError(ClientError):
    """No name server knows a route to the topic."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic}: {reason}")
        self.topic = topic


class BrokerNotFoundError(ClientError):
    """No route has an address of the broker that is needed."""


class IllegalMessageError(ClientError, ValueError):
    """A message that no broker would take; nothing was sent."""


class UnreachableError(ClientError):
    """A server did not answer: no connection, a connection that broke, or too late.

    ``is_sent`` says whether the request may have reached it, and so may have been carried out.
    """

    def __init__(self, address: str, text: str, *, is_sent: bool, is_timeout: bool = False) -> None:
        super().__init__(text)
        self.address = address
        self.is_sent = is_sent
        self.is_timeout = is_timeout


class RefusedError(ClientError):
    """A server has answered that it will not; ``code`` is its response code."""

    def __init__(self, address: str, code: int, remark: str) -> None:
        name = ResponseCode(code).name if code in ResponseCode.__members__.values() else "unknown"
        super().__init__(f"{address} refuses with code {code} ({name}): {remark}")
        self.address = address
        self.code = code
        self.remark = remark


class UnreadableError(ClientError):
    """A server has answered what cannot be read; the request may have been carried out."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} has answered with what cannot be read: {reason}")
        self.address = address


class SendFailedError(ClientError):
    """A message was not acknowledged; ``attempts`` are what was tried, in order.

    ``may_be_stored`` says whether one of them may have stored it all the same.
    """

    def __init__(self, text: str, attempts: list[ClientError]) -> None:
        super().__init__(text)
        self.attempts = attempts
        self.may_be_stored = any(
            isinstance(error, UnreachableError) and error.is_sent for error in attempts
        )


class ReplyTimeoutError(ClientError, TimeoutError):
    """A request was delivered to a broker, and nobody replied to it in time."""
