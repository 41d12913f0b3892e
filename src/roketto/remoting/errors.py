"""What can go wrong between two processes, as a caller of the transport sees it."""


class RemotingError(Exception):
    """A request did not get its answer; ``address`` says from whom."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectError(RemotingError):
    """No connection could be made; the request was certainly not sent."""


class ConnectionLostError(RemotingError):
    """The connection ended while the answer was awaited; the request may have been carried out."""


class RequestTimeoutError(RemotingError):
    """No answer within the time given; the request may have been carried out."""


class TooManyRequestsError(RemotingError):
    """The bound on unanswered requests is reached; the request was certainly not sent."""
