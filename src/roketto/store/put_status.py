"""How storing a message ended, by Java's names, and the response code that tells a producer."""

from enum import Enum
from typing import Final

from roketto.protocol.codes import ResponseCode
from roketto.store.errors import StoreError


class PutStatus(Enum):
    """The outcome of one put; logs, metrics and remarks carry the name."""

    PUT_OK = "PUT_OK"
    # These three: the message is stored, but not yet as safely as the broker promises.
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    @property
    def response_code(self) -> ResponseCode:
        """What a send request is answered with."""
        return _RESPONSE_CODES.get(self, ResponseCode.SYSTEM_ERROR)

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, and its answer tells where."""
        return self in _STORED


_RESPONSE_CODES: Final = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}
"""Every other status is a SYSTEM_ERROR."""

_STORED: Final = frozenset(
    (
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
    )
)


class PutRefusedError(StoreError):
    """A message that was not stored, and nothing of it written; ``status`` says how to answer."""

    def __init__(self, status: PutStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
