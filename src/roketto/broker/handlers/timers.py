"""What slaves ask about the timer messages of their master (60, 61)."""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.remoting.connection import Connection
from roketto.store.timer_checkpoint import TimerCheckpoint, encode_timer_checkpoint


def get_timer_check_point(context: Context, connection: Connection, request: Command) -> Command:
    """60: how far the wheel is on the disk."""
    found = _checkpoint(context, "The checkpoint is null")
    return request.answer(body=encode_timer_checkpoint(found))


def get_timer_metrics(context: Context, connection: Connection, request: Command) -> Command:
    """61: how many messages wait, by their topics."""
    _checkpoint(context, "The timer message store is null")
    return request.answer(body=encode_body(context.timers.metrics.body))


def _checkpoint(context: Context, remark: str) -> TimerCheckpoint:
    found = context.timers.checkpoint
    if found is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{remark}: timerWheelEnable is false")
    return found


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_TIMER_CHECK_POINT: get_timer_check_point,
    RequestCode.GET_TIMER_METRICS: get_timer_metrics,
}
