"""Requests that have waited too long are refused before anything is done for them."""

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.fast_failure import check_wait
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.errors import RequestError


@pytest.mark.parametrize(
    ("code", "bound_ms"),
    [
        (RequestCode.SEND_MESSAGE, 200),
        (RequestCode.SEND_MESSAGE_V2, 200),
        (RequestCode.SEND_BATCH_MESSAGE, 200),
        (RequestCode.CONSUMER_SEND_MSG_BACK, 200),
        (RequestCode.PULL_MESSAGE, 5_000),
        (RequestCode.LITE_PULL_MESSAGE, 5_000),
        (RequestCode.HEART_BEAT, 31_000),
    ],
)
def test_each_kind_of_request_has_the_bound_of_java(code: RequestCode, bound_ms: int) -> None:
    """Up to it a request is served; above it clients are told in Java's words."""
    config = BrokerConfig()
    check_wait(config, code, bound_ms / 1000, 3)
    with pytest.raises(RequestError) as caught:
        check_wait(config, code, bound_ms / 1000 + 0.002, 3)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    assert caught.value.reason.startswith(
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
    )
    assert caught.value.reason.endswith("ms, size of queue: 3")


def test_other_requests_may_wait_as_long_as_it_takes() -> None:
    """Also those that nobody knows."""
    for code in (RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT, -7):
        check_wait(BrokerConfig(), int(code), 3_600, 0)


def test_fast_failure_can_be_switched_off_and_set() -> None:
    """brokerFastFailureEnable, and the bound of each kind."""
    config = BrokerConfig(broker_fast_failure_enable=False)
    check_wait(config, RequestCode.SEND_MESSAGE_V2, 3_600, 0)
    config = BrokerConfig(wait_time_mills_in_send_queue=3_000)
    check_wait(config, RequestCode.SEND_MESSAGE_V2, 3.0, 0)
    with pytest.raises(RequestError):
        check_wait(config, RequestCode.SEND_MESSAGE_V2, 3.1, 0)
