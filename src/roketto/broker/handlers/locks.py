"""Orderly consumers lock the queues they consume, and give them back."""

from collections.abc import Iterable, Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.names import check_group, path_component
from roketto.remoting.connection import Connection

NAME_CHARS_MAX: Final = 255
"""A client id or the name of a broker."""


def lock(context: Context, connection: Connection, request: Command) -> Command:
    """Lock queues for one client of a group; the answer names those that it holds."""
    said = decode_body(LockBatchRequestBody, request.body)
    _check(said.consumer_group, said.client_id, said.mq_set)
    held = context.locks.lock(said.consumer_group, said.client_id, said.mq_set)
    return request.answer(body=encode_body(LockBatchResponseBody(sorted(held))))


def unlock(context: Context, connection: Connection, request: Command) -> Command:
    """Give queues back."""
    said = decode_body(UnlockBatchRequestBody, request.body)
    context.locks.unlock(said.consumer_group, said.client_id, said.mq_set)
    return request.answer()


def _check(group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
    """Refuse what could not be a queue of ours before it is remembered."""
    check_group(group)
    _check_length("client id", client_id)
    for queue in queues:
        path_component(queue.topic)
        _check_length("broker", queue.broker_name)


def _check_length(kind: str, name: str) -> None:
    if len(name) > NAME_CHARS_MAX:
        reason = f"{kind} {name[:64]!a}... has {len(name)} characters, {NAME_CHARS_MAX} at most"
        raise RequestError(ResponseCode.INVALID_PARAMETER, reason)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.LOCK_BATCH_MQ: lock,
    RequestCode.UNLOCK_BATCH_MQ: unlock,
}
