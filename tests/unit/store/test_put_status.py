"""Proves that every put status is answered with the code that Java's broker answers it with."""

import pytest

from roketto.protocol.codes import ResponseCode
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus

CODES = {
    "PUT_OK": 0,
    "FLUSH_DISK_TIMEOUT": 10,
    "SLAVE_NOT_AVAILABLE": 11,
    "FLUSH_SLAVE_TIMEOUT": 12,
    "IN_SYNC_REPLICAS_NOT_ENOUGH": 1,
    "CREATE_MAPPED_FILE_FAILED": 1,
    "MESSAGE_ILLEGAL": 13,
    "PROPERTIES_SIZE_EXCEEDED": 13,
    "WHEEL_TIMER_MSG_ILLEGAL": 13,
    "WHEEL_TIMER_FLOW_CONTROL": 1,
    "WHEEL_TIMER_NOT_ENABLE": 1,
    "SERVICE_NOT_AVAILABLE": 14,
    "OS_PAGE_CACHE_BUSY": 2,
    "LMQ_CONSUME_QUEUE_NUM_EXCEEDED": 1,
    "PUT_TO_REMOTE_BROKER_FAIL": 1,
    "UNKNOWN_ERROR": 1,
}


@pytest.mark.parametrize("status", PutStatus)
def test_each_status_has_its_name_and_code(status: PutStatus) -> None:
    """The table above is Java's."""
    assert status.value == status.name
    assert status.response_code == CODES[status.name]


def test_no_status_of_java_is_missing() -> None:
    """A status that we do not know could not be answered."""
    assert {status.name for status in PutStatus} == set(CODES)


def test_exactly_the_codes_0_and_10_to_12_mean_stored() -> None:
    """For these, and no other, the answer tells where the message lies."""
    stored = {status.response_code for status in PutStatus if status.is_stored}
    assert stored == {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }


def test_a_refusal_carries_status_and_reason() -> None:
    """Whoever answers needs both."""
    error = PutRefusedError(PutStatus.MESSAGE_ILLEGAL, "too long")
    assert isinstance(error, StoreError)
    assert (error.status, error.reason, str(error)) == (
        PutStatus.MESSAGE_ILLEGAL,
        "too long",
        "too long",
    )
