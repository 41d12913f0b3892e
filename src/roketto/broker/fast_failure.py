"""Refuse what has waited too long before anything is done for it, as Java's fast failure does.

Requests wait here while their connection may have no more of them under way, or does not read its
answers: what was read then stays where it is. When its turn comes, whoever sent it has given up or
soon will, and a refusal at once lets it try another broker. Nothing is refused that was begun.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final

from roketto.broker.config import BrokerConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.errors import RequestError

_FIELDS: Final = {
    RequestCode.SEND_MESSAGE: "wait_time_mills_in_send_queue",
    RequestCode.SEND_MESSAGE_V2: "wait_time_mills_in_send_queue",
    RequestCode.SEND_BATCH_MESSAGE: "wait_time_mills_in_send_queue",
    RequestCode.STAGE_BATCH: "wait_time_mills_in_send_queue",
    RequestCode.CONSUMER_SEND_MSG_BACK: "wait_time_mills_in_send_queue",
    RequestCode.PULL_MESSAGE: "wait_time_mills_in_pull_queue",
    RequestCode.LITE_PULL_MESSAGE: "wait_time_mills_in_lite_pull_queue",
    RequestCode.HEART_BEAT: "wait_time_mills_in_heartbeat_queue",
}
"""Which option bounds the wait of a request. Others may wait as long as it takes."""

_BOUNDS: Final[Mapping[int, Callable[[BrokerConfig], int]]] = {
    int(code): attrgetter(name) for code, name in _FIELDS.items()
}


def check_wait(config: BrokerConfig, code: int, waited_s: float, waiting: int) -> None:
    """RequestError if a request has waited too long; ``waiting`` others are behind it."""
    bound = _BOUNDS.get(code)
    waited_ms = int(waited_s * 1000)
    if bound is None or not config.broker_fast_failure_enable or waited_ms <= bound(config):
        return
    raise RequestError(
        ResponseCode.SYSTEM_BUSY,
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue:"
        f" {waited_ms}ms, size of queue: {waiting}",
    )
